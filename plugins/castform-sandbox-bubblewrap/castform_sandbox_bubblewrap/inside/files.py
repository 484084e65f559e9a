"""Files of the box, handled by a process of the box: whatever a link leads to, it is inside.

Each call reads from stdin, writes to stdout, and says on stderr why it did not work.
"""
# ruff: noqa: PTH101, PTH103, PTH105, PTH108, PTH112, PTH118, PTH119, PTH120, PTH123, PTH208
# pathlib would be half of the start-up time

from __future__ import annotations

import errno
import os
import stat
import sys

from castform_sandbox_bubblewrap.inside.users import UnknownUserError, find_identity

TYPE_CHECKING = False
if TYPE_CHECKING:  # without `typing`: each import is part of a box's start
    from collections.abc import Callable
    from typing import Any

REFUSED = 1
_LOADS_LIBRARIES = ("_bz2", "_lzma", "_zstd", "grp", "pwd", "zlib")
_CHUNK = 1 << 18
_BEYOND_MEASURE = 1 << 62


class RefusedError(Exception):
    """The call cannot be done; the message is for whoever asked."""


def serve(call: str, arguments: dict[str, Any]) -> int:  # Any: what the host has put in
    """Do one call and return its exit code."""
    os.umask(0o022)
    try:
        CALLS[call](**arguments)
    except RefusedError as error:
        words = str(error)
    except UnknownUserError as error:
        words = str(error)
    except OSError as error:
        words = f"{error.filename or call}: {error.strerror}"
    else:
        return 0
    os.write(2, os.fsencode(words[:2000]))
    return REFUSED


def read(path: str, max_bytes: int) -> None:
    """Write a regular file to stdout."""
    if not stat.S_ISREG(os.lstat(path).st_mode):  # asked first: opening a device may do something
        raise RefusedError(f"{path} is {_describe(os.lstat(path).st_mode)}, not a regular file")
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    status = os.fstat(source)
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError(f"{path} is no regular file")
    if status.st_size > max_bytes:
        raise RefusedError(f"{path} holds {status.st_size} bytes, more than the {max_bytes} that are read")
    while data := os.read(source, _CHUNK):
        _write_all(1, data)


def write(path: str, mode: int, user: str | None) -> None:
    """Write stdin beside the file's place and move it there."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    beside = os.path.join(folder, f".{os.path.basename(path)[:200]}.{os.urandom(6).hex()}")
    target = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        while data := os.read(0, _CHUNK):
            _write_all(target, data)
        if user is not None:
            who = find_identity(user)
            os.fchown(target, who.uid, who.gid)
        os.fchmod(target, mode)
        os.close(target)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def unpack(target: str, owner: str | None = None, mode: int | None = None) -> None:
    """Write what the archive on stdin holds below a folder. Files and links are replaced, folders merged."""
    tarfile = _import_tarfile()
    who = None if owner is None else find_identity(owner)
    os.makedirs(target, exist_ok=True)
    folder_modes: list[tuple[str, int]] = []
    try:
        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
            for member in archive:
                place = os.path.join(target, member.name)
                if who is not None:
                    member.uid, member.gid = who.uid, who.gid
                member.uname = member.gname = ""
                if mode is not None and member.isfile():
                    member.mode = mode
                if member.isdir():
                    folder_modes.append((place, member.mode))
                    member.mode = 0o700
                    if os.path.isdir(place):
                        continue
                elif os.path.lexists(place):
                    os.unlink(place)
                if hasattr(tarfile, "fully_trusted_filter"):
                    archive.extract(member, target, numeric_owner=True, filter="fully_trusted")
                else:
                    archive.extract(member, target, numeric_owner=True)
    except tarfile.TarError as error:
        raise RefusedError(f"the archive is broken: {error}") from error
    for place, bits in reversed(folder_modes):
        os.chmod(place, bits)


def pack(source: str, max_bytes: int) -> None:
    """Write an archive of a file, or of a folder's content, to stdout."""
    tarfile = _import_tarfile()
    status = os.lstat(source)
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise RefusedError(f"{source} is {_describe(status.st_mode)}, not a file or folder")
    if stat.S_ISREG(status.st_mode) and status.st_size > max_bytes:
        raise RefusedError(f"{source} holds more than {max_bytes} bytes")
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        if stat.S_ISREG(status.st_mode):
            archive.add(source, arcname=os.path.basename(source), recursive=False)
            return
        for name in sorted(os.listdir(source)):
            _add(archive, os.path.join(source, name), name)


def _import_tarfile() -> Any:  # a module; it is half of a box's start where it is imported at the top
    """Import it without what would load a library or a name service from where programs of the box write."""
    for name in _LOADS_LIBRARIES:
        sys.modules[name] = None  # type: ignore[assignment]  # which makes its import fail; tarfile does without
    import tarfile

    return tarfile


def _add(archive: Any, path: str, name: str) -> None:  # Any: tarfile is imported where it is used
    try:
        status = os.lstat(path)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            return
        archive.add(path, arcname=name, recursive=False)
        inner = sorted(os.listdir(path)) if stat.S_ISDIR(status.st_mode) else []
    except FileNotFoundError:  # it went away meanwhile
        return
    for entry in inner:
        _add(archive, os.path.join(path, entry), f"{name}/{entry}")


def kind(path: str) -> None:
    """Write `file` or `folder`; anything else, a link too, is refused."""
    mode = os.lstat(path).st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise RefusedError(f"{path} is {_describe(mode)}, not a file or folder")
    _write_all(1, b"folder" if stat.S_ISDIR(mode) else b"file")


def usage() -> None:
    """Write how many bytes the box's own files take."""
    _write_all(1, b"%d" % measure_disk())


def measure_disk() -> int:
    """Return the bytes that files below / take; what is mounted there is none of the box's own.

    Folders that lie deeper than a path can name cannot be looked at, so they count as more than any limit.
    """
    with open("/proc/self/mountinfo") as file:  # /usr may lie on the same device
        mounted = {line.split()[4] for line in file}
    seen: set[int] = set()
    total = 0
    folders = ["/"]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return _BEYOND_MEASURE
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    return _BEYOND_MEASURE
                continue
            if entry.path in mounted or (status.st_nlink > 1 and status.st_ino in seen):
                continue
            seen.add(status.st_ino)
            total += status.st_blocks * 512
            if stat.S_ISDIR(status.st_mode):
                folders.append(entry.path)
    return total


CALLS: dict[str, Callable[..., None]] = {
    "kind": kind,
    "read": read,
    "write": write,
    "unpack": unpack,
    "pack": pack,
    "usage": usage,
}


def _write_all(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


def _describe(mode: int) -> str:
    for test, words in (
        (stat.S_ISLNK, "a link"),
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISREG, "a regular file"),
    ):
        if test(mode):
            return words
    return "a device"
