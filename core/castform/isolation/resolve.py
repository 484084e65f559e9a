"""From what was asked for to a lock. Nothing is installed."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from castform import __version__
from castform.errors import MissingError, RunFailedError, UsageError
from castform.isolation.installers import ConflictError, Resolver, Sources, run_pip, run_uv
from castform.isolation.lock import Lock, LockedItem
from castform.isolation.requested import Requested
from castform.isolation.runtime_wheel import Runtime, write_runtime_wheel
from castform.plugins.content import hash_file

NO_HASH_HINT = "isolated environments are built of wheels and archives: build one of it and use --wheels DIR"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """A lock, and why it is not the one with all of castform's dependencies, where it is not."""

    lock: Lock
    conflict: str = ""


def resolve(
    requests: Sequence[Requested],
    *,
    resolver: Resolver,
    sources: Sources,
    work: Path,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Resolved:
    """Find exact versions, with all that castform gives an author, or with what a worker needs alone.

    The latter where the former conflicts with the plugin and, without an index, where it is not among
    the wheels. The first request is the plugin, the others go into its environment too. `work` is an
    empty folder that must last until the lock is installed: wheels that no index has lie there.

    Raises ConflictError when the plugin's own requirements contradict each other, MissingError when
    something cannot be had, UsageError for what cannot be locked.
    """
    asked = [
        build_wheel(item, resolver, sources, work / str(place), on_stage) if item.is_folder else item
        for place, item in enumerate(requests)
    ]
    try:
        on_stage(f"resolving {requests[0].text} with {resolver}")
        return Resolved(lock=_lock(asked, "full", resolver, sources, work))
    except MissingError as error:
        if not isinstance(error, ConflictError) and not sources.offline:
            raise
        on_stage("resolving again with what a worker needs alone")
        lock = _lock(asked, "minimal", resolver, sources, work)
        return Resolved(lock=lock, conflict=str(error))


def build_wheel(
    requested: Requested, resolver: Resolver, sources: Sources, built: Path, on_stage: Callable[[str], None]
) -> Requested:
    """Build the wheel of a folder into `built` and return it as what was asked for.

    Without an index it is built with what this environment has.
    """
    on_stage(f"building a wheel of {requested.text}")
    doing = f"building a wheel of {requested.text}"
    options = [*sources.options(), *(["--no-build-isolation"] if sources.offline else [])]
    if resolver == "uv":
        run_uv(
            ["build", "--wheel", "--out-dir", str(built), *options, str(requested.path)],
            doing=doing,
        )
    else:
        words = ["wheel", "--no-deps", "--wheel-dir", str(built), *options, str(requested.path)]
        run_pip(words, doing=doing)
    wheels = sorted(built.glob("*.whl"))
    if len(wheels) != 1:
        raise RunFailedError(f"{doing} gave {len(wheels)} wheels, not one")
    return Requested(
        text=requested.text, distribution=requested.distribution, path=wheels[0], content=hash_file(wheels[0])
    )


def _lock(
    requests: Sequence[Requested], runtime: Runtime, resolver: Resolver, sources: Sources, work: Path
) -> Lock:
    folder = work / runtime
    folder.mkdir()
    core = write_runtime_wheel(folder, runtime)
    wanted = folder / "wanted.txt"
    lines = [*(_requirement_line(item) for item in requests), f"castform @ {core.as_uri()}"]
    wanted.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    find = _lock_with_uv if resolver == "uv" else _lock_with_pip
    items = find(wanted, folder, sources, f"resolving {requests[0].text}")
    lock = Lock(
        items=tuple(sorted(items, key=lambda item: canonicalize_name(item.name))),
        runtime=runtime,
        resolver=resolver,
    )
    locked = lock.find("castform")
    if locked is None or locked.url != core.as_uri():  # an index may have another one of the name
        raise RunFailedError(f"{resolver} did not take the castform {__version__} that it was given")
    return lock


def _requirement_line(requested: Requested) -> str:
    return (
        requested.text if requested.path is None else f"{requested.distribution} @ {requested.path.as_uri()}"
    )


def _lock_with_pip(wanted: Path, folder: Path, sources: Sources, doing: str) -> list[LockedItem]:
    report = folder / "report.json"
    run_pip(
        [
            "install",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
            *sources.options(),
            "-r",
            str(wanted),
        ],
        doing=doing,
    )
    data = json.loads(report.read_text(encoding="utf-8"))
    return [read_report_item(item) for item in data["install"]]


def read_report_item(item: dict[str, Any]) -> LockedItem:
    """Return one entry of pip's installation report (format 1) as a locked item."""
    name, version = item["metadata"]["name"], item["metadata"]["version"]
    source = item["download_info"]
    sha256 = source.get("archive_info", {}).get("hashes", {}).get("sha256")
    if sha256 is None:
        raise UsageError(
            f"{name} {version} comes from {source.get('url')}, which has no hash to lock",
            hint=NO_HASH_HINT,
        )
    return LockedItem(
        name=name, version=version, sha256=(sha256,), url=source["url"] if item["is_direct"] else None
    )


def _lock_with_uv(wanted: Path, folder: Path, sources: Sources, doing: str) -> list[LockedItem]:
    compiled = folder / "compiled.txt"
    words = [
        "pip",
        "compile",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--python",
        sys.executable,
    ]
    run_uv([*words, *sources.options(), "--output-file", str(compiled), str(wanted)], doing=doing)
    return read_compiled(compiled.read_text(encoding="utf-8"))


def read_compiled(text: str) -> list[LockedItem]:
    """Return what `uv pip compile --generate-hashes` wrote as locked items."""
    items = []
    for line in text.replace("\\\n", " ").splitlines():
        words, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
        if not words or words.startswith("#"):
            continue
        requirement = Requirement(words)
        url = requirement.url
        if not hashes:
            raise UsageError(
                f"{words} has no hash to lock",
                hint=NO_HASH_HINT,
            )
        version = _version_in(url) if url else str(requirement.specifier).removeprefix("==")
        items.append(
            LockedItem(
                name=requirement.name, version=version, sha256=tuple(h.strip() for h in hashes), url=url
            )
        )
    return items


def _version_in(url: str) -> str:
    name = url.partition("#")[0].rpartition("/")[2]
    if name.endswith(".whl"):
        return str(parse_wheel_filename(name)[1])
    return name.removesuffix(".tar.gz").rpartition("-")[2]
