"""The physical lines of a file, in bounded memory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from benchmax.sft.limits import MAX_LINE_BYTES

BUFFER_BYTES = 1 << 20


class Line(NamedTuple):
    number: int
    """From 1, blank lines counted."""
    data: bytes
    """With its newline; only the first MAX_LINE_BYTES and one more of a longer line."""
    size: int
    """Bytes of the whole line."""


def read_lines(path: str | os.PathLike[str]) -> Iterator[Line]:
    r"""Yield the lines of a file that are not blank; a line ends at `\n` and nowhere else.

    Blank is a line of spaces, tabs, CR, FF and VT only. OSError when the file cannot be read;
    it names the path and what to do instead.
    """
    with _open(path) as stream:
        try:
            yield from lines_of(stream)
        except OSError as error:
            raise _with_path(error, path) from error


def lines_of(stream: BinaryIO) -> Iterator[Line]:
    """Yield the lines of a stream that are not blank, as `read_lines` does those of a file."""
    number = 0
    while data := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        size, blank = len(data), data.isspace()
        if size > MAX_LINE_BYTES and not data.endswith(b"\n"):
            more, rest_blank = _skip_line(stream)
            size, blank = size + more, blank and rest_blank
        if not blank:
            yield Line(number, data, size)


def _skip_line(stream: BinaryIO) -> tuple[int, bool]:
    """Read on to the end of a line; return how many bytes that were, and whether all were blank."""
    size, blank = 0, True
    while data := stream.readline(BUFFER_BYTES):
        size += len(data)
        blank = blank and data.isspace()
        if data.endswith(b"\n"):
            break
    return size, blank


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        mode = Path(path).stat().st_mode  # before it is opened: opening a pipe waits for its writer
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(
                errno.EISDIR, "this is a folder; name one of its .jsonl files", os.fspath(path)
            )
        if not stat.S_ISREG(mode):
            raise OSError(
                errno.EINVAL, "this is a pipe or a device; write the rows to a file first", os.fspath(path)
            )
        return Path(path).open("rb", buffering=BUFFER_BYTES)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT, f"there is no such file (looked from {Path.cwd()}); check the path", os.fspath(path)
        ) from error
    except PermissionError as error:
        raise PermissionError(
            errno.EACCES,
            "this user may not read it; change its permissions or copy it to where it can be read",
            os.fspath(path),
        ) from error
    except OSError as error:
        raise _with_path(error, path) from error


def _with_path(error: OSError, path: str | os.PathLike[str]) -> OSError:
    """Return the error with the path in it; one that has a path stays as it is."""
    if error.filename is not None or error.errno is None:
        return error
    return OSError(
        error.errno, f"reading failed ({error.strerror}); copy the file to a local disk", os.fspath(path)
    )
