"""Files into and out of boxes as tar archives, sizes capped and nothing trusted that comes out.

What goes in belongs to root. What comes out was written by a hostile program: only regular files,
folders and links that stay inside the copy are taken, and nothing is ever written through a link.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from castform.sandbox.errors import SandboxFileError, UsageError

MAX_MEMBERS = 200_000
"""Files, folders and links of one archive that comes out."""
_IN_MEMORY = 8 << 20
_CHUNK = 1 << 20


class Readable(Protocol):
    """What an archive is read from, front to back."""

    def read(self, size: int = -1, /) -> bytes: ...


class ChunkReader:
    """Chunks of bytes, as an engine's API yields them, as something to read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, all for a negative one; nothing at the end."""
        while size < 0 or len(self._rest) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest += chunk
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return taken


def pack_bytes(name: str, data: bytes, *, mode: int = 0o644, uid: int = 0, gid: int = 0) -> bytes:
    """Return an archive that holds one file. `name` is relative; its folders are not in it."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uid, member.gid = len(data), mode, uid, gid
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@contextlib.contextmanager
def pack_path(source: Path, *, name: str | None = None, max_bytes: int | None = None) -> Iterator[IO[bytes]]:
    """Yield an archive of a file under `name` (default: its own), or of a folder's content.

    It is at its beginning, in memory or a temporary file. Modes are kept, owners are root; links go
    in as links, sockets, pipes and devices are left out. UsageError where there is no such path,
    SandboxFileError for more than `max_bytes` of content, and for what cannot be read.
    """
    left = max_bytes

    def admit(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal left
        if left is not None:
            left -= member.size
            if left < 0:
                raise SandboxFileError(f"{source} holds more than {max_bytes} bytes")
        return _own_by_root(member)

    with explain_local(source):
        if not source.exists():
            raise UsageError(
                f"{source} does not exist", hint="upload takes a file or a folder of this machine"
            )
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as buffer:
        with (
            explain_local(source),
            tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            if source.is_dir():
                for entry in sorted(source.iterdir()):
                    archive.add(entry, arcname=entry.name, filter=admit)
            else:
                archive.add(source.resolve(), arcname=name or source.name, filter=admit)
        buffer.seek(0)
        yield buffer


def unpack(archive: Readable, target: Path, *, max_bytes: int, strip: str = "") -> None:
    """Write what an archive holds below `target`, a folder that is made.

    `strip`: a folder's name that members' names begin with. Members that would lie outside, special
    files and links that lead out are left out; set-id bits are dropped, the owner is whoever runs
    this. SandboxFileError for more than `max_bytes` of content, for an archive that is broken, and
    for what cannot be written here.
    """
    with explain_local(target):
        target.mkdir(parents=True, exist_ok=True)
        root = target.resolve()
    links: list[tuple[Path, str]] = []
    folder_modes: list[tuple[Path, int]] = []
    left = max_bytes
    try:
        with tarfile.open(fileobj=archive, mode="r|") as stream:  # type: ignore[call-overload]  # only read() is used
            for count, member in enumerate(stream):
                if count >= MAX_MEMBERS:
                    raise SandboxFileError(
                        f"more than {MAX_MEMBERS} files are to be copied out of the sandbox"
                    )
                place = _place(root, member.name, strip)
                if place is None or not _make_folders(root, place):
                    continue
                if member.isdir():
                    if _make_folder(place):
                        folder_modes.append((place, stat.S_IMODE(member.mode) & 0o777))
                elif member.isreg():
                    left -= member.size
                    if left < 0:
                        raise SandboxFileError(
                            f"more than {max_bytes} bytes are to be copied out of the sandbox",
                            hint="raise max_bytes, or ask for less",
                        )
                    _write_member(stream, member, place)
                elif member.islnk():
                    left -= _copy_member(root, member, place, strip, left)
                elif member.issym():
                    links.append((place, member.linkname))
    except (tarfile.TarError, EOFError) as error:
        raise SandboxFileError(f"what came out of the sandbox is no whole archive: {error}") from error
    with explain_local(target):
        for place, words in links:
            _make_link(root, place, words)
        for place, _ in links:  # where one leads may have changed with those that were made after it
            _remove_stray_link(root, place)
        for place, mode in reversed(folder_modes):
            place.chmod(mode | 0o700)


@contextlib.contextmanager
def explain_local(path: Path) -> Iterator[None]:
    """Let what this machine's file system refuses be a SandboxFileError about a path on it."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        raise SandboxFileError(
            f"{where} on this machine: {error.strerror or error}",
            hint="make room there, or let castform read and write it",
        ) from error


def _own_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _place(root: Path, name: str, strip: str) -> Path | None:
    """Return where a member belongs; None outside of the copy, and for the copy's own folder."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if strip and parts and parts[0] == strip:
        parts = parts[1:]
    if not parts or ".." in parts or any("\0" in part for part in parts):
        return None
    return root.joinpath(*parts)


def _make_folders(root: Path, place: Path) -> bool:
    """Make the folders above a place; False where one of them is there and is no folder."""
    above = root
    for part in place.relative_to(root).parts[:-1]:
        above = above / part
        if not _make_folder(above):
            return False
    return True


def _make_folder(place: Path) -> bool:
    try:
        place.mkdir()
    except FileExistsError:
        return stat.S_ISDIR(place.lstat().st_mode)
    except OSError as error:
        raise SandboxFileError(f"{place.name[:80]!r} cannot be copied: {error.strerror}") from error
    return True


def _write_member(stream: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    content = stream.extractfile(member)
    assert content is not None  # it is a regular file
    with _create(place, member.mode) as file:
        while chunk := content.read(_CHUNK):
            _write(file, chunk, place)


def _write(file: IO[bytes], data: bytes, place: Path) -> None:
    left = memoryview(data)
    with explain_local(place):
        while left:
            left = left[file.write(left) :]


def _copy_member(root: Path, member: tarfile.TarInfo, place: Path, strip: str, left: int) -> int:
    """Copy what a hard link names, if it came before; return the bytes that it took."""
    source = _place(root, member.linkname, strip)
    if source is None or source == place or not _is_inside(root, source):
        return 0
    try:
        status = source.lstat()
    except OSError:
        return 0
    if not stat.S_ISREG(status.st_mode):
        return 0
    if status.st_size > left:
        raise SandboxFileError("more is to be copied out of the sandbox than max_bytes allows")
    with explain_local(source), source.open("rb") as content, _create(place, member.mode) as file:
        while chunk := content.read(_CHUNK):
            _write(file, chunk, place)
    return status.st_size


def _create(place: Path, mode: int) -> IO[bytes]:
    if place.is_dir() and not place.is_symlink():
        raise SandboxFileError(f"{place.name[:80]!r} is both a file and a folder there")
    try:
        place.unlink(missing_ok=True)
        descriptor = os.open(
            place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except OSError as error:
        raise SandboxFileError(f"{place.name[:80]!r} cannot be copied: {error.strerror}") from error
    os.fchmod(descriptor, (stat.S_IMODE(mode) & 0o777) | 0o600)
    return os.fdopen(descriptor, "wb", buffering=0)  # a full disk is found by the write


def _make_link(root: Path, place: Path, words: str) -> None:
    """Make a link that stays inside the copy, by what it says and by where it leads."""
    if words.startswith("/") or not words:
        return
    inside = posixpath.normpath(posixpath.join(*place.parent.relative_to(root).parts, words) or ".")
    if inside == ".." or inside.startswith("../") or not _is_inside(root, place):
        return
    with contextlib.suppress(OSError):
        if place.is_symlink() or not place.exists():
            place.unlink(missing_ok=True)
            place.symlink_to(words)


def _remove_stray_link(root: Path, place: Path) -> None:
    if not place.is_symlink():
        return
    try:
        strays = not place.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a ring of links
        strays = True
    if strays:
        place.unlink()


def _is_inside(root: Path, place: Path) -> bool:
    return place.parent.resolve().is_relative_to(root)
