"""Carry declared artifacts out of the agent's box, and into a verifier's own."""

from __future__ import annotations

import fnmatch
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from castform.sandbox.errors import ExecTimeoutError, SandboxFileError
from castform.sandbox.scratch import open_scratch
from castform_harbor.box import TESTS, VERIFIER_LOGS, Box
from castform_harbor.output import make_folder, write_json
from castform_harbor.task_config import ARTIFACTS_DIR, MAIN_SERVICE, Artifact, CollectHook

MANIFEST = "manifest.json"
_KEPT_FROM_AGENT = (TESTS, VERIFIER_LOGS)
"""No artifact is placed in these: there the tests and what they decide would be the agent's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """One artifact, as far as it came."""

    artifact: Artifact
    source: str
    """Absolute path in the box."""
    host: Path
    status: Literal["ok", "failed", "empty", "skipped"]
    is_folder: bool
    problem: str | None = None

    def as_entry(self, below: Path) -> dict[str, Any]:
        """Return the line of manifest.json, in Harbor's form."""
        return {
            "source": self.artifact.source,
            "destination": f"artifacts/{self.host.relative_to(below).as_posix()}",
            "type": "directory" if self.is_folder else "file",
            "status": self.status,
            "service": None if self.artifact.service == MAIN_SERVICE else self.artifact.service,
            "exclude": list(self.artifact.exclude) if self.is_folder else [],
        }


async def run_collect_hooks(box: Box, hooks: Iterable[CollectHook]) -> list[str]:
    """Run the hooks in order; what fails is a warning, as in Harbor."""
    warnings = []
    for hook in hooks:
        try:
            done = await box.run(hook.command, user=hook.user, timeout_seconds=hook.timeout_seconds)
        except ExecTimeoutError:
            warnings.append(f"the collect hook took longer than {hook.timeout_seconds:g} s: {hook.command}")
            continue
        if done.exit_code != 0:
            told = (done.error_text or done.text).strip()[-200:]
            warnings.append(
                f"the collect hook ended with exit code {done.exit_code} ({told}): {hook.command}"
            )
    return warnings


async def collect_artifacts(
    box: Box, artifacts: Sequence[Artifact], target: Path, *, max_bytes: int
) -> list[Carried]:
    """Copy /logs/artifacts and what is listed below `target`, and write the manifest.

    A path that is not there is `failed`, no error. Where two land on one another, the first stays,
    and where one lands on the manifest, that does.
    Raises SandboxGoneError.
    """
    make_folder(target)
    listed = list(artifacts)
    if not any(item.source.rstrip("/") == ARTIFACTS_DIR for item in listed):
        listed.insert(0, Artifact(source=ARTIFACTS_DIR))
    carried: list[Carried] = []
    for item in listed:
        carried.append(await _collect(box, item, target, carried, max_bytes))
    write_json(target / MANIFEST, [item.as_entry(target) for item in carried])
    return carried


async def _collect(
    box: Box, item: Artifact, target: Path, earlier: Sequence[Carried], max_bytes: int
) -> Carried:
    source = f"/{str(PurePosixPath(box.workdir) / item.source).lstrip('/')}"
    host = target / (item.destination or source).strip("/")
    guess = not PurePosixPath(source).suffix
    if any(_overlap(host, taken) for taken in (target / MANIFEST, *(other.host for other in earlier))):
        return Carried(artifact=item, source=source, host=host, status="skipped", is_folder=guess)
    with tempfile.TemporaryDirectory(prefix=".arriving-", dir=target) as work:
        copy = Path(work) / "copy"
        try:
            await box.sandbox.download(source, copy, max_bytes=max_bytes)
        except SandboxFileError as error:
            return Carried(
                artifact=item,
                source=source,
                host=host,
                status="failed",
                is_folder=guess,
                problem=str(error),
            )
        is_folder = copy.is_dir()
        if is_folder:
            _prune(copy, item.exclude)
        make_folder(host.parent)
        copy.rename(host)
    empty = is_folder and not any(host.iterdir())
    return Carried(
        artifact=item, source=source, host=host, status="empty" if empty else "ok", is_folder=is_folder
    )


async def place_artifacts(box: Box, carried: Iterable[Carried]) -> list[str]:
    """Put what was carried out of one box at the same paths of another; return what was held back."""
    held = []
    for item in carried:
        if item.status not in ("ok", "empty"):
            continue
        path = PurePosixPath(item.source)
        if any(path.is_relative_to(kept) for kept in _KEPT_FROM_AGENT):
            held.append(f"{item.source} was not given to the verifier: its own files lie there")
            continue
        inside = [kept for kept in _KEPT_FROM_AGENT if PurePosixPath(kept).is_relative_to(path)]
        if not inside:
            await box.sandbox.upload(item.host, item.source)
            continue
        with open_scratch("artifact") as work:
            copy = work / "copy"
            shutil.copytree(item.host, copy, symlinks=True)
            for kept in inside:
                shutil.rmtree(copy / PurePosixPath(kept).relative_to(path), ignore_errors=True)
            await box.sandbox.upload(copy, item.source)
        held.append(f"{item.source} was given to the verifier without {', '.join(inside)}")
    return held


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _prune(folder: Path, patterns: Sequence[str]) -> None:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).as_posix()
        if not any(fnmatch.fnmatch(inside, rule) or fnmatch.fnmatch(path.name, rule) for rule in patterns):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
