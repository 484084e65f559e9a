"""The programs that resolve and install: uv where it is, else pip."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from castform.errors import MissingError, RunFailedError, UsageError

Resolver = Literal["uv", "pip"]
ResolverName = Literal["auto", "uv", "pip"]
TIMEOUT_SECONDS = 1800.0
_CONFLICTS = ("ResolutionImpossible", "conflicting dependencies", "No solution found", "unsatisfiable")

_MOST_CAUSES = 6
_RAISED = re.compile(r"[A-Za-z_.]*(?:Error|Exception): \S")


class ConflictError(MissingError):
    """Requirements that no set of versions meets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Where distributions come from, beside what pip's or uv's own settings say."""

    wheels: Path | None = None
    """A folder with wheels that are used too."""
    offline: bool = False
    """Use that folder and nothing else."""

    def options(self) -> list[str]:
        """Return the options that pip and uv share."""
        found = [] if self.wheels is None else ["--find-links", str(self.wheels)]
        return [*found, *(["--no-index"] if self.offline else [])]


def choose_resolver(wanted: ResolverName) -> Resolver:
    """Return uv when it is on the path (or is wanted), else pip. Raises MissingError when there is neither."""
    has_uv = shutil.which("uv") is not None
    if wanted == "uv" and not has_uv:
        raise MissingError("uv is not installed", hint="pip install uv, or leave --resolver out")
    if wanted in ("auto", "uv") and has_uv:
        return "uv"
    if importlib.util.find_spec("pip") is None:
        raise MissingError(
            "neither uv nor pip is here to install with", hint=f"{sys.executable} -m ensurepip, or install uv"
        )
    return "pip"


def run_pip(words: Sequence[str], *, doing: str, python: Path | None = None) -> None:
    """Run this environment's pip, for another environment when `python` is its interpreter.

    Raises ConflictError when requirements contradict each other, MissingError for all else that pip
    cannot do, RunFailedError when it does not end.
    """
    target = [] if python is None else ["--python", str(python)]
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            *target,
            *words,
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
        ],
        "pip",
        doing,
    )


def run_uv(words: Sequence[str], *, doing: str) -> None:
    """Run uv; raises as `run_pip` does."""
    program = shutil.which("uv")
    if program is None:
        raise MissingError("uv is not installed", hint="pip install uv, or leave --resolver out")
    _run([program, *words, "--quiet", "--no-progress"], "uv", doing)


def check_wheels(sources: Sources) -> None:
    """Raise UsageError for a folder of wheels that is none."""
    if sources.wheels is not None and not sources.wheels.is_dir():
        raise UsageError(f"{sources.wheels} is not a folder", hint="--wheels names a folder of wheels")
    if sources.offline and sources.wheels is None:
        raise UsageError("--offline needs --wheels DIR", hint="a folder that has every wheel that is needed")


def _run(command: Sequence[str], program: str, doing: str) -> None:
    from castform.bundles.bounded_process import environ_without_python, run_bounded

    with tempfile.TemporaryDirectory() as place:
        done = run_bounded(
            command, cwd=Path(place), env=environ_without_python(), timeout_seconds=TIMEOUT_SECONDS
        )
    if done.ending != "exit":
        raise RunFailedError(f"{doing}: {program} {done.describe()}")
    if done.code != 0:
        conflict = any(word in done.output for word in _CONFLICTS)
        raise (ConflictError if conflict else MissingError)(
            f"{doing}: {program} cannot: {explain_output(done.output)}",
            hint="check names and versions, and that the package index can be reached"
            " (--offline --wheels DIR needs none)",
        )


def explain_output(output: str) -> str:
    """Return the lines of an output that say why."""
    from castform.bundles.own_venv import hide_passwords

    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if " depends on " in line or line.startswith("The user requested")]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    raised = [line for line in lines if _RAISED.match(line)]  # by a build, further up than pip's own words
    told = causes[-_MOST_CAUSES:] or [*raised[-2:], *errors[:3]] or lines[-_MOST_CAUSES:]
    return hide_passwords("; ".join(dict.fromkeys(told))) or "it says nothing"
