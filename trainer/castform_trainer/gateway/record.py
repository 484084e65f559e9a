"""The durable log: one JSON line a ModelCall, written before the answer goes out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from castform.calls import ModelCall, Sampling
from castform.errors import RunFailedError

CALL_FIELDS = tuple(field.name for field in fields(ModelCall) if field.name != "sampling")
SAMPLING_FIELDS = tuple(field.name for field in fields(Sampling))
TUPLES = ("prompt_ids", "sampled_ids", "logprobs", "overrides", "messages", "tools")


class CallLog:
    """Appends calls to a file. A torn last line left by a crash is cut off when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
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
            os.ftruncate(self._file, self._size)
            raise RunFailedError(
                f"cannot record a model call in {self.path}: {error.strerror}",
                hint="free some space on this disk, then resume the run",
            ) from error
        self._size += len(data)

    def close(self) -> None:
        os.close(self._file)


def read_calls(path: Path) -> Iterator[ModelCall]:
    """Yield the calls of a log in the order in which they were answered.

    A last line without its line break was torn by a crash and is left out; its answer was
    never sent. Any other line that cannot be read raises RunFailedError with file and line.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield decode_call(line)
                except (ValueError, TypeError, KeyError) as error:
                    raise RunFailedError(f"{path}:{number} is not a recorded call: {error}") from error
    except OSError as error:
        raise RunFailedError(f"cannot read the call log {path}: {error.strerror}") from error


def encode_call(call: ModelCall) -> bytes:
    """Return one JSON line."""
    value = {name: getattr(call, name) for name in CALL_FIELDS}
    if call.sampling is not None:
        value["sampling"] = {name: getattr(call.sampling, name) for name in SAMPLING_FIELDS}
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode_call(line: bytes) -> ModelCall:
    """Return the call that a line holds; equal to the one that was encoded, field by field."""
    value: dict[str, Any] = json.loads(line)
    for name in TUPLES:
        if value.get(name) is not None:
            value[name] = tuple(value[name])
    sampling = value.get("sampling")
    if sampling is not None:
        for name in ("stop", "stop_token_ids"):
            sampling[name] = tuple(sampling[name])
        value["sampling"] = Sampling(**sampling)
    return ModelCall(**value)


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
