"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from castform.errors import RunFailedError, UsageError


class NewFile:
    """A file that comes to be under its name when it is kept, and leaves no trace otherwise."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()  # through a link: what it names is written
        self._partial = self.path.with_name(f".{self.path.name}.{os.urandom(4).hex()}.partial")
        self._stream: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        """Add bytes. RunFailedError: the disk refuses."""
        with _disk_faults(self.path):
            self._open().write(data)

    def keep(self) -> None:
        """Give the file its name, in place of one that has it. RunFailedError: the disk refuses."""
        with _disk_faults(self.path):
            stream = self._open()
            stream.flush()
            os.fsync(stream.fileno())
            self._partial.replace(self.path)
            stream.close()

    def discard(self) -> None:
        """Remove what was written, unless it was kept."""
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._partial.unlink(missing_ok=True)

    def _open(self) -> BinaryIO:
        if self._stream is None:
            _remove_abandoned(self.path)
            self._stream = self._make()
        return self._stream

    def _make(self) -> BinaryIO:
        """Make the file under its first name, with a lock that says that somebody writes it."""
        while True:
            stream = self._partial.open("xb", buffering=1 << 20)
            with contextlib.suppress(OSError):  # a file system without locks, where nothing is swept
                fcntl.flock(stream, fcntl.LOCK_SH)
            if os.fstat(stream.fileno()).st_nlink:
                return stream
            stream.close()  # it was swept before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove what writers of a file left that were killed: nobody holds its lock any more."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.partial"):
        with contextlib.suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


@contextlib.contextmanager
def new_file(path: Path | None) -> Iterator[NewFile | None]:
    """Yield a file to write; what is not kept in the block is discarded. None for no path."""
    if path is None:
        yield None
        return
    file = NewFile(path)
    try:
        yield file
    finally:
        file.discard()


def check_writable(path: Path, what: str, *, apart_from: tuple[Path, ...]) -> None:
    """Raise UsageError unless a file can be written there that is none of some others."""
    try:
        if path.is_dir():
            raise UsageError(f"{what} {path} is a folder", hint="name a file in it")
        if path.exists() and not path.is_file():
            raise UsageError(f"{what} {path} is a pipe or a device", hint="name a file")
        folder = path.resolve().parent
        if not folder.is_dir():
            raise UsageError(f"{what} {path} cannot be made: there is no folder {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"{what} {path} cannot be made: this user may not write to {folder}")
        for other in apart_from:
            if _is_same(path, other):
                raise UsageError(f"{what} {path} is the same file as {other}", hint="give it another name")
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be made: {error.strerror}") from error


def _is_same(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve() or (path.exists() and other.exists() and path.samefile(other))


@contextlib.contextmanager
def _disk_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFailedError(
            f"cannot write {path}: {error.strerror or error}", hint="nothing was left there"
        ) from error
