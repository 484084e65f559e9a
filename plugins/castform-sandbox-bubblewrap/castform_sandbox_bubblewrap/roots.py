"""Roots that boxes begin with: the plain one, and those that a Dockerfile builds on it, each made once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from castform.sandbox.contract import ImageBuild
from castform.sandbox.images import hash_build, lock_across_processes
from castform.sandbox.trees import remove_tree
from castform_sandbox_bubblewrap.base import COPIED, FOLDERS, make_base
from castform_sandbox_bubblewrap.ignore import list_context

_FORMAT = "castform-bubblewrap-1"
"""Changes when what a root looks like does."""
_RECORD = "image.json"


@dataclass(frozen=True, kw_only=True)
class Image:
    """A root and what its Dockerfile said of running in it."""

    root: str
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    user: str = "root"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Build = Callable[[ImageBuild, Image, Path], Awaitable[Image]]
"""Builds on an image, leaves the root at a path and returns what belongs to it."""


async def find_base(folder: Path, owner: int | None) -> Image:
    """Return the plain root, made if this host's has changed or was never made."""
    name = await asyncio.to_thread(_name_base, owner)
    target = folder / "images" / name
    async with lock_across_processes(name, folder=folder / "locks"):
        if not (target / _RECORD).exists():
            await asyncio.to_thread(_make_base, target, owner)
    return Image(root=str(target / "root"))


async def find_image(folder: Path, owner: int | None, build: ImageBuild, base: Image, make: Build) -> Image:
    """Return the image of a folder, built unless equal content was built before.

    Several processes that ask at once build it once. Raises what `make` raises; then nothing is kept.
    """
    context = await asyncio.to_thread(list_context, build)
    salt = f"{_FORMAT} {owner} {Path(base.root).parent.name}"
    name = await asyncio.to_thread(lambda: hash_build(build, paths=context, salt=salt))
    target = folder / "images" / name
    async with lock_across_processes(name, folder=folder / "locks"):
        if not (target / _RECORD).exists():
            await asyncio.to_thread(remove_tree, target)
            target.mkdir(mode=0o700)
            image = await make(build, base, target / "root")
            _write_record(target, image)
        return _read_record(target)


def _name_base(owner: int | None) -> str:
    """Return a name that changes with the parts of the host's /etc that go into the plain root."""
    digest = hashlib.sha256(repr((_FORMAT, owner, sorted(FOLDERS.items()), COPIED)).encode())
    for name in COPIED:
        top = Path("/etc") / name
        for folder, _, files in sorted(os.walk(top)) if top.is_dir() else [("/etc", [], [name])]:
            for file in sorted(files):
                try:
                    status = Path(folder, file).lstat()
                except OSError:
                    continue
                digest.update(
                    f"{folder}/{file} {status.st_mode} {status.st_size} {status.st_mtime_ns}\n".encode()
                )
    return f"base-{digest.hexdigest()[:24]}"


def _make_base(target: Path, owner: int | None) -> None:
    remove_tree(target)
    beside = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    (beside / "root").mkdir(parents=True)
    make_base(beside / "root", owner=owner)
    _write_record(beside, Image(root=""))
    beside.rename(target)


def _write_record(folder: Path, image: Image) -> None:
    beside = folder / f"{_RECORD}.new"
    beside.write_text(json.dumps({**asdict(image), "root": ""}, indent=1))
    beside.replace(folder / _RECORD)


def _read_record(folder: Path) -> Image:
    record = json.loads((folder / _RECORD).read_text())
    lists = {name: tuple(record[name]) for name in ("entrypoint", "command", "notes")}
    return Image(**{**record, **lists, "root": str(folder / "root")})
