"""Why a build failed, out of all that it printed."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_CHARACTERS = 200
TAIL_LINES = 15
_NOT_FOUND = re.compile(r"ERROR: No matching distribution found for (.+)")
_CONFLICT = re.compile(r"ERROR: (Cannot install .+)")
_NO_BACKEND = re.compile(r"Backend '(.+)' is not available")
_WHERE = "see [build-system] in pyproject.toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildFault:
    """What to say of a failed build."""

    cause: str
    """In one line; empty when the output tells none."""
    hint: str | None
    details: list[str]
    """The lines to show: the installer's errors, or the end of the output."""


def explain_build(output: str) -> BuildFault:
    """Read the output of `python -m build`."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    if found := _NOT_FOUND.search(output):
        cause = f"it requires {found[1].strip()} to be built, which the package index does not have"
        return BuildFault(cause=cause, hint=f"{_WHERE}: requires", details=_installer_lines(lines))
    if found := _CONFLICT.search(output):
        return BuildFault(cause=found[1].strip(), hint=f"{_WHERE}: requires", details=_installer_lines(lines))
    if found := _NO_BACKEND.search(output):
        cause = f"the build backend {found[1]} cannot be imported"
        return BuildFault(cause=cause, hint=f"{_WHERE}: build-backend", details=[])
    told = next((line.strip() for line in reversed(lines) if "Error" in line or "error" in line), "")
    cut = told if len(told) <= MOST_CHARACTERS else told[:MOST_CHARACTERS] + "…"
    return BuildFault(cause=cut, hint=None, details=lines[-TAIL_LINES:])


def _installer_lines(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(line[line.index("ERROR:") :] for line in lines if "ERROR:" in line))
