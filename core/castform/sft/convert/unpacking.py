"""A source file as a stream of UTF-8: unpacked when it is compressed, re-encoded when it is UTF-16 or UTF-32."""

from __future__ import annotations

import codecs
import contextlib
import importlib
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from benchmax.sft.file_kinds import binary_kind, wide_encoding
from castform.errors import RunFailedError, UsageError

BLOCK_BYTES = 1 << 20
PACKED: tuple[tuple[bytes, str, str], ...] = (
    (b"\x1f\x8b", "gzip", "gzip"),
    (b"BZh", "bz2", "bzip2"),
    (b"\xfd7zXZ\x00", "lzma", "xz"),
)
"""How a packed file starts, the module of the standard library that opens it, and its name."""


class CutOffError(Exception):
    """A file ends before it should, or cannot be unpacked to its end; the message says which."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenSource:
    """An open file, and what is done to read it."""

    stream: io.BufferedReader
    packed_as: str | None
    encoding: str | None
    """None: UTF-8, as it should be."""


@contextlib.contextmanager
def open_source(path: Path) -> Iterator[OpenSource]:
    """Open a file for reading. UsageError: there is none, it cannot be read, or it holds no JSON.

    Inside, damage of what is packed or encoded is raised as CutOffError.
    """
    packed_as = encoding = None
    with _open(path) as file:
        stream: Any = file  # a FileIO or what unpacks it
        start = file.read(64)
        file.seek(0)
        for mark, module, name in PACKED:
            if start.startswith(mark):
                packed_as = name
                stream = importlib.import_module(module).open(file, "rb")
        try:
            if packed_as is not None:
                start = stream.read(64)
                stream.seek(0)
            encoding = wide_encoding(start)
            kind = None if encoding else binary_kind(start)
            if kind is not None:
                raise UsageError(f"{path}: {kind}")
            if packed_as is not None:
                stream = _Piecewise(stream)
            raw = stream if encoding is None else _Narrowed(stream, encoding)
            reader = io.BufferedReader(raw, BLOCK_BYTES)
            yield OpenSource(stream=reader, packed_as=packed_as, encoding=encoding)
        except UnicodeDecodeError as error:
            raise CutOffError(f"the file stops being {encoding} here: {error.reason}") from error
        except OSError as error:
            if packed_as is None or error.errno is not None:
                raise RunFailedError(
                    f"reading {path} failed: {error.strerror or error}", hint="copy it to a local disk"
                ) from error
            raise CutOffError(f"the {packed_as} file is damaged: {error}") from error
        except Exception as error:
            if not _is_damage(error, packed_as):
                raise
            raise CutOffError(f"the {packed_as} file is cut off or damaged: {error}") from error


def _is_damage(error: Exception, packed_as: str | None) -> bool:
    if packed_as == "xz":
        from lzma import LZMAError

        return isinstance(error, (EOFError, LZMAError))
    return packed_as is not None and isinstance(error, (EOFError, zlib.error))


def _open(path: Path) -> io.FileIO:
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", hint="name one of the files in it")
        if not path.exists():
            raise UsageError(
                f"there is no file {path}", hint=f"check the path; it is looked for from {Path.cwd()}"
            )
        if not path.is_file():
            raise UsageError(
                f"{path} is a pipe or a device, which can be read only once",
                hint="write its rows to a file first",
            )
        return path.open("rb", buffering=0)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


class _Piecewise(io.RawIOBase):
    """A packed stream that gives what it has, so that what stands before damage is read."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]  # typing has no name for a buffer in 3.11
        return self._stream.readinto1(buffer)


class _Narrowed(io.RawIOBase):
    """The UTF-8 of a stream in another encoding. UnicodeDecodeError while reading."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]  # typing has no name for a buffer in 3.11
        while not self._rest:
            data = self._stream.read(BLOCK_BYTES // 4)
            self._rest = self._decoder.decode(data, final=not data).encode("utf-8", "surrogatepass")
            if not data:
                break
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size
