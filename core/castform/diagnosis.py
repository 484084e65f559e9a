"""What is sound and what is not in an installation. Looks at metadata and files, imports no extra."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from castform import __version__
from castform.home import castform_home
from castform.plugins.check import check_plugins
from castform.plugins.hookspec_version import HOOKSPEC_VERSION
from castform.plugins.requirements import find_missing, list_extras

Level = Literal["ok", "missing", "warning", "error"]
IMPORT_NAMES = ("benchmax", "castform", "castform_harbor", "castform_trainer")
DISTRIBUTION = "castform"
OLDEST_PYTHON, FIRST_TOO_NEW = (3, 11), (3, 14)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    level: Level
    """ok; missing: an extra that is not installed; warning: a part does not work; error: nothing does."""
    found: str
    hint: str | None = None


def diagnose() -> list[Finding]:
    """Look at everything, in the order in which one would mend it."""
    return [
        _check_python(),
        _check_version(),
        Finding(check="hookspecs", level="ok", found=f"version {HOOKSPEC_VERSION}"),
        *check_import_names(),
        _check_home(castform_home()),
        *_check_extras(),
        *_check_plugins(),
    ]


def _check_python(version: tuple[int, ...] = sys.version_info[:2]) -> Finding:
    good = OLDEST_PYTHON <= tuple(version[:2]) < FIRST_TOO_NEW
    return Finding(
        check="python",
        level="ok" if good else "error",
        found=f"{platform.python_version()} ({sys.executable})",
        hint=None if good else "castform runs on Python 3.11 to 3.13",
    )


def _check_version() -> Finding:
    try:
        installed = importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return Finding(check="castform", level="ok", found=f"{__version__}, from a source folder")
    if installed != __version__:
        return Finding(
            check="castform",
            level="error",
            found=f"this code is {__version__}, but version {installed} is what is installed",
            hint="the hosted SDK is a distribution of that name too: uninstall castform, then install it again",
        )
    return Finding(check="castform", level="ok", found=__version__)


def check_import_names(names: Iterable[str] = IMPORT_NAMES) -> list[Finding]:
    """Say whether the import names belong to this distribution alone.

    The hosted product's packages are imported by the same names; with both installed,
    files of one overwrite the other's.
    """
    owners = importlib.metadata.packages_distributions()
    return [_check_import_name(name, set(owners.get(name, []))) for name in names]


def _check_import_name(name: str, owners: set[str]) -> Finding:
    check = f"import {name}"
    others = sorted(o for o in owners if o.lower() != DISTRIBUTION)
    if others:
        return Finding(
            check=check,
            level="error",
            found=f"claimed by {' and '.join(others)} too",
            hint=f"the hosted SDK has the same import names: pip uninstall {' '.join(others)} castform, "
            "then install castform again, or keep the two in environments of their own",
        )
    spec = importlib.util.find_spec(name)
    if spec is None:
        return Finding(check=check, level="error", found="cannot be found", hint="pip install castform")
    place = Path(next(iter(spec.submodule_search_locations or []), spec.origin or "?"))
    mine = Path(__file__).resolve().parent
    if name == "castform" and place.resolve() != mine:
        return Finding(
            check=check,
            level="error",
            found=f"is {place}, but this is {mine}",
            hint="another castform comes first on the path: look for a folder of that name",
        )
    if name == "benchmax" and place.resolve().parent != mine.parent:
        return Finding(
            check=check,
            level="error",
            found=f"{place} is not this distribution's",
            hint="another benchmax comes first on the path: uninstall it",
        )
    return Finding(check=check, level="ok", found=str(place))


def _check_home(home: Path) -> Finding:
    existing = home
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Finding(
            check="CASTFORM_HOME",
            level="error",
            found=f"{home} cannot be written to: {error.strerror}",
            hint="point CASTFORM_HOME at a folder of yours",
        )
    return Finding(check="CASTFORM_HOME", level="ok", found=str(home))


def _check_extras() -> list[Finding]:
    return [_check_extra(extra) for extra in list_extras(DISTRIBUTION)]


def _check_extra(extra: str) -> Finding:
    missing = find_missing(DISTRIBUTION, extra) or []
    if not missing:
        return Finding(check=f"extra {extra}", level="ok", found="installed")
    return Finding(
        check=f"extra {extra}",
        level="missing",
        found=f"not installed: {', '.join(missing)}",
        hint=f"pip install 'castform[{extra}]'",
    )


def _check_plugins() -> list[Finding]:
    return [
        Finding(
            check=f"plugin {report.name}",
            level="ok" if report.failure is None else "warning",
            found=report.distribution if report.failure is None else str(report.failure),
            hint=None if report.failure is None else report.failure.hint,
        )
        for report in check_plugins()
    ]
