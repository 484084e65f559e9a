"""Check a plugin the way its users will meet it: built, installed elsewhere, run there."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.authoring.building import Built, build_plugin
from castform.authoring.certifying import certify_installed
from castform.authoring.fresh_venv import (
    FreshVenv,
    find_missing_tools,
    install_requirements,
    install_wheel,
    make_fresh_venv,
    read_requirements,
)
from castform.authoring.metadata import check_metadata
from castform.authoring.own_tests import CHECK as OWN_TESTS
from castform.authoring.own_tests import run_own_tests
from castform.authoring.project import Project, read_project
from castform.authoring.report import CheckReport, CheckRow, fails, passes, unchecked
from castform.authoring.undeclared import suggest_distribution
from castform.authoring.wheel_files import check_wheel_files
from castform.errors import CastformError

LOAD_TIMEOUT_SECONDS = 300.0
ENVIRONMENT_TIMEOUT_SECONDS = 600.0
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckOptions:
    """What a check does besides checking."""

    certify: bool = False
    """Certify every environment and write the certificates into the package's source."""
    keep: bool = False
    """Leave the virtual environment where it is."""


def check_plugin(
    folder: Path, options: CheckOptions | None = None, *, on_stage: Say = lambda _: None
) -> CheckReport:
    """Check the plugin whose source is `folder`.

    The folder is only written to for certificates that were asked for. UsageError when it
    is no plugin's, MissingError when the package `build` is not installed; whatever else
    is wrong is in the report.
    """
    options = options or CheckOptions()
    began = time.monotonic()
    project = read_project(folder)
    work = Path(tempfile.mkdtemp(prefix="castform-check-"))
    try:
        rows = list(_iter_rows(project, options, work, on_stage))
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    venv = work / "venv"
    return CheckReport(
        distribution=project.name,
        rows=rows,
        seconds=time.monotonic() - began,
        venv=str(venv) if options.keep and venv.exists() else None,
    )


def _iter_rows(project: Project, options: CheckOptions, work: Path, say: Say) -> Iterator[CheckRow]:
    yield from check_metadata(project)
    say("building the sdist, and the wheel from the sdist")
    built = build_plugin(project, work)
    yield from built.rows
    yield check_wheel_files(project, built)
    if built.wheel is None:
        yield unchecked("install", "there is no wheel")
        return
    say("installing the wheel in a fresh virtual environment")
    fresh = make_fresh_venv(work / "venv", tools=project.build_requirements)
    try:
        extra = install_wheel(fresh, built.wheel)
    except CastformError as error:
        yield fails("install", str(error.args[0]), hint=error.hint)
        return
    yield passes("install", f"with {', '.join(extra)}" if extra else "castform is all it needs")
    yield from _check_installed(project, options, built, fresh, work, say)


def _check_installed(
    project: Project, options: CheckOptions, built: Built, fresh: FreshVenv, work: Path, say: Say
) -> Iterator[CheckRow]:
    say("loading the plugin")
    told, ending = _ask(
        fresh, work, ["plugin"], [*project.packages, "--", *project.plugins], LOAD_TIMEOUT_SECONDS
    )
    if told is None:
        yield fails("plugin", f"loading it {ending}")
        return
    yield _check_imports(told["undeclared"])
    yield from _check_plugins(told["plugins"])
    rows, extras_installed = _install_extras(fresh, built, told["environments"])
    yield from rows
    missing = False
    for environment in told["environments"] if extras_installed else ():
        for row in _check_environment(environment["id"], options, fresh, work, project, say):
            missing = missing or row.missing
            yield row
    if not told["environments"] and all(plugin["ok"] for plugin in told["plugins"]):
        yield unchecked("environments", "the plugin registers none")
    if missing:  # what they would say of it is known
        yield unchecked(OWN_TESTS, "what an environment needs is missing")
        return
    say("running the plugin's own tests")
    yield run_own_tests(project, built, fresh, work)


def _ask(
    fresh: FreshVenv, work: Path, action: list[str], words: list[str], seconds: float, *, tools: bool = False
) -> tuple[dict[str, Any] | None, str]:
    """Run a part inside; return its answer, None when there is none, and how the process ended."""
    answer = work / "answer.json"
    answer.unlink(missing_ok=True)
    cwd = work / "elsewhere"
    cwd.mkdir(exist_ok=True)
    done = fresh.run(
        ["-m", "castform.authoring.inside", *action, str(answer), *words],
        cwd=cwd,
        timeout_seconds=seconds,
        with_tools=tools,
    )
    last = next((line for line in reversed(done.output.splitlines()) if line.strip()), "")
    ending = done.describe() + (f": {last.strip()}" if last and done.code else "")
    if not answer.is_file():
        return None, ending
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found, ending


def _check_imports(undeclared: list[dict[str, str]]) -> CheckRow:
    if not undeclared:
        return passes("imports", "castform and what the plugin declares give all of them")
    first = undeclared[0]
    names = [suggest_distribution(found["module"]) for found in undeclared]
    return fails(
        "imports",
        f"{first['place']} imports {first['module']}, which nothing declares"
        + (f" (and {len(undeclared) - 1} more)" if undeclared[1:] else ""),
        hint=f"add {', '.join(repr(name) for name in names)} to dependencies in pyproject.toml",
        details=[f"{found['place']}: {found['module']}" for found in undeclared[1:]],
    )


def _check_plugins(reports: list[dict[str, Any]]) -> Iterator[CheckRow]:
    for report in reports:
        check = f"plugin {report['plugin']}"
        if report["ok"]:
            yield passes(check, f"loads in {report['seconds']:.2f} s")
        else:
            yield fails(check, str(report["error"]))


def _install_extras(
    fresh: FreshVenv, built: Built, environments: list[dict[str, Any]]
) -> tuple[list[CheckRow], bool]:
    """Install the extras of its own that the plugin's environments need."""
    extras = sorted({extra for environment in environments for extra in environment["requires"]})
    if not extras or built.wheel is None:
        return [], True
    try:
        wanted = [r for extra in extras for r in read_requirements(built.wheel, extra)]
        install_requirements(fresh, wanted)
    except CastformError as error:
        return [fails("extras", str(error.args[0]), hint=error.hint)], False
    return [passes("extras", ", ".join(extras))], True


def _check_environment(
    id: str, options: CheckOptions, fresh: FreshVenv, work: Path, project: Project, say: Say
) -> Iterator[CheckRow]:
    say(f"checking {id}")
    told, ending = _ask(
        fresh, work, ["environment"], [id], ENVIRONMENT_TIMEOUT_SECONDS, tools=not find_missing_tools()
    )
    if told is None or "error" in told:
        yield _describe_error(f"loads {id}", (told or {}).get("error"), ending)
        return
    yield passes(f"loads {id}", "with its default arguments")
    for split in ("train", "eval"):
        check = f"{split} data {id}"
        found = told.get(split, {})
        if "error" in found:
            yield _describe_error(check, found["error"], ending)
        else:
            yield passes(check, f"the first {found['examples']} examples")
    if any("error" in told.get(split, {}) for split in ("train", "eval")):
        yield unchecked(f"conforms {id}", "its data cannot be read")
        return
    if "not_ready" in told:
        yield judge_not_ready(id, told["not_ready"])
        return
    yield judge_rules(id, told, ending)
    if options.certify:
        say(f"certifying {id}")
        yield certify_installed(id, project, fresh, work)


def _describe_error(check: str, error: dict[str, Any] | None, ending: str) -> CheckRow:
    if error is None:
        return fails(check, f"the process {ending}")
    return fails(check, error["message"], hint=error["hint"], details=error["traceback"])


def judge_not_ready(id: str, error: dict[str, Any]) -> CheckRow:
    """Return the row of an environment whose `check_ready` says that no rollout can run here."""
    check = f"ready {id}"
    if error["missing"]:
        return unchecked(check, error["message"], hint=error["hint"], missing=True)
    return _describe_error(check, error, "")


def judge_rules(id: str, told: dict[str, Any], ending: str) -> CheckRow:
    """Return the row of what the process that checked the rules told before it ended in this way."""
    check = f"conforms {id}"
    if "rules" not in told:
        return fails(check, f"the process that checked the rules {ending}")
    if told["rules"] is None:
        return unchecked(
            check, f"{', '.join(find_missing_tools())} is missing", hint="pip install 'castform[test]'"
        )
    if "at" in told:
        return fails(check, f"the process that checked the rules {ending}, at the rule {told['at']}")
    states = [rule["state"] for rule in told["rules"]]
    broken = [rule["told"] for rule in told["rules"] if rule["state"] == "broken"]
    not_checked = [rule["told"] for rule in told["rules"] if rule["state"] == "not_checked"]
    details = "\n".join([*broken, *not_checked]).splitlines()
    if broken:
        names = ", ".join(rule["rule"] for rule in told["rules"] if rule["state"] == "broken")
        return fails(check, f"{len(broken)} of {len(states)} rules are broken: {names}", details=details)
    return passes(check, f"{states.count('held')} of {len(states)} rules held", details=details)
