"""Run a plugin's own tests against the wheel that is installed, not against its source."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from castform.authoring.building import Built
from castform.authoring.fresh_venv import (
    FreshVenv,
    find_missing_tools,
    install_requirements,
    read_requirements,
)
from castform.authoring.project import Project
from castform.authoring.report import CheckRow, fails, passes, unchecked
from castform.errors import CastformError
from castform.plugins.names import normalize_name

CHECK = "own tests"
TIMEOUT_SECONDS = 900.0
TAIL_LINES = 20
NO_TESTS = 5
"""pytest's exit code for that."""
TEST_EXTRAS = ("test", "tests", "testing")
_SUMMARY = re.compile(r"\d+ (?:passed|failed|error|skipped|deselected|warning).* in [\d.]+s")


def run_own_tests(project: Project, built: Built, fresh: FreshVenv, work: Path) -> CheckRow:
    """Run pytest in a copy of the source folder, whose package is imported from the wheel all the same."""
    if not any((built.source / name).is_dir() for name in ("tests", "test")):
        return unchecked(CHECK, "there is no folder tests", hint="`castform env new` shows what to test")
    missing = find_missing_tools()
    if missing:
        return unchecked(CHECK, f"{', '.join(missing)} is missing", hint="pip install 'castform[test]'")
    try:
        _install_test_extra(project, built, fresh)
    except CastformError as error:
        return fails(CHECK, str(error.args[0]), hint=error.hint)
    copy = work / "tested"
    shutil.copytree(built.source, copy, symlinks=True)
    # Imported before pytest puts a folder of the source on the path: later imports stay with the wheel's.
    early = [word for package in project.packages for word in ("-p", package)]
    done = fresh.run(
        ["-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", *early],
        cwd=copy,
        timeout_seconds=TIMEOUT_SECONDS,
        with_tools=True,
    )
    lines = [line for line in done.output.splitlines() if line.strip()]
    told = next((found[0] for line in reversed(lines) if (found := _SUMMARY.search(line))), "")
    if done.ending == "exit" and done.code == 0:
        return passes(CHECK, told or "passed")
    if done.ending == "exit" and done.code == NO_TESTS:
        return unchecked(CHECK, "pytest finds none")
    return fails(CHECK, told or f"pytest {done.describe()}", details=lines[-TAIL_LINES:])


def _install_test_extra(project: Project, built: Built, fresh: FreshVenv) -> None:
    extras = project.table.get("optional-dependencies")
    names = (
        [name for name in extras if normalize_name(str(name)) in TEST_EXTRAS]
        if isinstance(extras, dict)
        else []
    )
    if built.wheel is not None:
        install_requirements(fresh, [r for name in names for r in read_requirements(built.wheel, name)])
