"""Install a plugin into the running environment, and only when that changes nothing that is there."""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from castform.errors import MissingError, UsageError
from castform.isolation.installers import ConflictError, Sources, check_wheels, run_pip
from castform.isolation.lock import LockedItem
from castform.isolation.requested import Requested, read_requested
from castform.isolation.resolve import build_wheel, read_report_item


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One distribution that an installation brings or changes."""

    name: str
    before: str | None
    """The installed version; None: it is not there."""
    after: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} -> {self.after}" if self.before else f"{self.name} {self.after}"


def install_into_this(
    requirement: str,
    *,
    sources: Sources | None = None,
    on_plan: Callable[[list[Change]], None] = lambda _: None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> list[Change]:
    """Install a requirement with pip beside what is here and return what came.

    `on_plan` is told before anything is installed. Raises UsageError, with nothing installed, when
    another version of an installed distribution would come (the plugin itself may be upgraded);
    MissingError when pip is not here or cannot find something.
    """
    sources = sources or Sources()
    check_wheels(sources)
    requested = read_requested(requirement)
    if importlib.util.find_spec("pip") is None:
        raise MissingError(
            "this environment has no pip",
            hint=f"uv pip install {requirement}, or castform env install {requirement} --isolated",
        )
    with tempfile.TemporaryDirectory(prefix="castform-install-") as work:
        on_stage(f"looking at what {requirement} would change here")
        try:
            items = _plan(requested, sources, Path(work), on_stage)
        except ConflictError as error:
            raise UsageError(
                f"{requirement} does not go with what is installed here; nothing was installed. {error}",
                hint=f"castform env install {requirement} --isolated gives it an environment of its own",
            ) from error
        changes = [Change(name=i.name, before=_installed(i.name), after=i.version) for i in items]
        on_plan(changes)
        _refuse_upgrades(requested, changes)
        if items:
            wanted = Path(work) / "lock.txt"
            wanted.write_text("".join(f"{item.line()}\n" for item in items), encoding="utf-8")
            words = ["install", "--no-deps", "--require-hashes", *sources.options(), "-r", str(wanted)]
            run_pip(words, doing=f"installing {requirement}")
    return changes


def _plan(
    requested: Requested, sources: Sources, work: Path, on_stage: Callable[[str], None]
) -> list[LockedItem]:
    if requested.is_folder:
        requested = build_wheel(requested, "pip", sources, work / "built", on_stage)
    target = requested.text if requested.path is None else str(requested.path)
    report = work / "report.json"
    wanted = work / "wanted.txt"  # not on the command line, where others would see it
    wanted.write_text(f"{target}\n", encoding="utf-8")
    run_pip(
        ["install", "--dry-run", "--report", str(report), *sources.options(), "-r", str(wanted)],
        doing=f"resolving {requested.text}",
    )
    data = json.loads(report.read_text(encoding="utf-8"))
    return [read_report_item(item) for item in data["install"]]


def _refuse_upgrades(requested: Requested, changes: list[Change]) -> None:
    changed = [
        change
        for change in changes
        if change.before is not None and canonicalize_name(change.name) != requested.distribution
    ]
    if changed:
        raise UsageError(
            f"{requested.text} would change {len(changed)} installed distribution"
            f"{'s' if len(changed) > 1 else ''}: {', '.join(map(str, changed))}; nothing was installed",
            hint=f"castform env install {requested.text} --isolated gives it an environment of its own",
        )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
