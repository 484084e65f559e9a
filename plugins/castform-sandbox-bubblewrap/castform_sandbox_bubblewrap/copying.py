"""The files that COPY and ADD name, as an archive."""

from __future__ import annotations

import io
import posixpath
import re
import stat
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from castform_sandbox_bubblewrap.dockerfile import Instruction
from castform_sandbox_bubblewrap.ignore import translate

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file or folder of the context."""

    path: str
    """Relative; empty for the context itself."""
    is_folder: bool


def find_sources(context: Path, kept: Sequence[str], words: Sequence[str], line: Instruction) -> list[Source]:
    """Return what the words of COPY name, of the paths that the build sees. UsageError where that is nothing."""
    found: list[Source] = []
    for word in words:
        path = posixpath.normpath("/" + word).lstrip("/")  # `..` leads no further than the context
        if _WILD.search(path):
            pattern = re.compile(translate(path) + r"\Z", re.DOTALL)
            matches = [name for name in kept if pattern.match(name)]
        else:
            matches = [path] if path == "" or path in kept else []
        if not matches:
            raise line.refuse(
                f"{word!r} is not in the build's folder, or its .dockerignore leaves it out",
                hint="paths of COPY are relative to the folder that holds the Dockerfile",
            )
        found += [_resolve(context, name, line) for name in matches]
    return found


def write_archive(
    sources: Sequence[Source],
    context: Path,
    kept: Sequence[str],
    target: IO[bytes],
    *,
    name: str | None,
    mode: int | None,
) -> None:
    """Write sources as COPY lays them out: a folder's content, a file under `name` or its own. Blocks."""
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for source in sources:
            if not source.is_folder:
                _add(archive, context / source.path, name or posixpath.basename(source.path), mode)
                continue
            prefix = f"{source.path}/" if source.path else ""
            for path in kept:
                if path.startswith(prefix):
                    _add(archive, context / path, path[len(prefix) :], mode)


def write_text(target: IO[bytes], name: str, text: str, mode: int | None) -> None:
    """Write one file of text as an archive."""
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o644 if mode is None else mode
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(data))


def _resolve(context: Path, name: str, line: Instruction) -> Source:
    """Return what a path leads to, which has to lie in the context."""
    root = context.resolve()
    place = (context / name).resolve()
    if not place.is_relative_to(root):
        raise line.refuse(f"{name!r} is a link out of the build's folder")
    if not place.exists():
        raise line.refuse(f"{name!r} is a link that leads nowhere")
    inside = place.relative_to(root).as_posix()
    return Source(path="" if inside == "." else inside, is_folder=place.is_dir())


def _add(archive: tarfile.TarFile, place: Path, name: str, mode: int | None) -> None:
    status = place.lstat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return
    member = archive.gettarinfo(str(place), arcname=name)
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    if stat.S_ISREG(status.st_mode):
        member.type, member.size = (
            tarfile.REGTYPE,
            status.st_size,
        )  # a second name of a file is a file of its own
        if mode is not None:
            member.mode = mode
        with place.open("rb") as file:
            archive.addfile(member, file)
        return
    if mode is not None and stat.S_ISDIR(status.st_mode):
        member.mode = mode | (mode & 0o444) >> 2
    archive.addfile(member)
