"""The durable log: one JSON line a ModelCall, written before the answer goes out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from castform.call_log import decode_call, encode_call, read_calls
from castform.calls import ModelCall
from castform.errors import RunFailedError
from castform.token_marks import TokenMarks, write_marks

__all__ = ["CallLog", "decode_call", "encode_call", "read_calls"]


class CallLog:
    """Appends calls to a file. A torn last line left by a crash is cut off when it is opened."""

    def __init__(self, path: Path, marks: TokenMarks | None = None) -> None:
        """`marks`, of what makes the calls' token ids, are kept beside the log."""
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if marks is not None:
                write_marks(path, marks)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._size = _cut_torn_line(self._file)
        except OSError as error:
            raise RunFailedError(
                f"cannot open the call log {path}: {error.strerror}",
                hint="check the folder and its free space",
            ) from error

    def append(self, calls: Sequence[ModelCall]) -> None:
        """Write the calls of one request, all or none. RunFailedError when the disk refuses."""
        data = b"".join(encode_call(call) for call in calls)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with suppress(OSError):  # then the next one to open the log cuts the torn line off
                os.ftruncate(self._file, self._size)
            raise RunFailedError(
                f"cannot record a model call in {self.path}: {error.strerror}",
                hint="free some space on this disk, then resume the run",
            ) from error
        self._size += len(data)

    def close(self) -> None:
        os.close(self._file)


def _cut_torn_line(file: int) -> int:
    """Drop what follows the last line break; return the size that is left."""
    end = os.lseek(file, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - 65536)
        place = os.pread(file, end - start, start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    os.ftruncate(file, end)
    return end
