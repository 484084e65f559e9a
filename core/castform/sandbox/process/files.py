"""A box's files, which are this machine's: whole files in and out, links never followed at the end."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from castform.sandbox.errors import SandboxFileError
from castform.sandbox.request import check_mode, check_path, check_size


def read_regular(path: str, max_bytes: int) -> bytes:
    """Return a regular file's content. SandboxFileError for anything else and for more than `max_bytes`."""
    place = Path(check_path(path))
    check_size("max_bytes", max_bytes)
    try:
        if not stat.S_ISREG(place.lstat().st_mode):  # asked first: opening a device may do something
            raise SandboxFileError(f"{path} is no regular file", hint=_describe_kind(place))
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise make_file_error(path, error) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise SandboxFileError(f"{path} is no regular file")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise SandboxFileError(
            f"{path} holds {max(status.st_size, len(data))} bytes, more than the {max_bytes} that are read",
            hint="raise max_bytes, or download it",
        )
    return data


def write_whole(path: str, data: bytes, mode: int) -> None:
    """Write a file beside its place and move it there, so that a link is replaced and never followed."""
    place = Path(check_path(path))
    check_mode(mode)
    beside = place.with_name(f".{place.name[:200]}.{secrets.token_hex(6)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
            beside.replace(place)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise make_file_error(path, error) from error


def make_file_error(path: str, error: OSError) -> SandboxFileError:
    """Return what an operating system's error means for a path in a box."""
    if error.errno == errno.ELOOP:
        return SandboxFileError(f"{path} is a link")
    return SandboxFileError(f"{path}: {error.strerror or error}")


def _describe_kind(place: Path) -> str:
    kind = place.lstat().st_mode
    for test, words in (
        (stat.S_ISLNK, "it is a link; ask for what it points to"),
        (stat.S_ISDIR, "it is a folder; download it"),
        (stat.S_ISFIFO, "it is a pipe"),
        (stat.S_ISSOCK, "it is a socket"),
    ):
        if test(kind):
            return words
    return "it is a device"
