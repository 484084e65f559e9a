"""Model calls as JSON lines: written as they are answered, read back to train or to score again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from castform.calls import ModelCall, Sampling
from castform.errors import RunFailedError

CALL_FIELDS = tuple(field.name for field in fields(ModelCall) if field.name != "sampling")
SAMPLING_FIELDS = tuple(field.name for field in fields(Sampling))
TUPLES = ("prompt_ids", "sampled_ids", "logprobs", "overrides", "messages", "tools")


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
    for message in (value["reply"], *value["messages"]):
        if not isinstance(message, dict):
            raise TypeError(f"a message is an object, not {message!r:.60}")
    return ModelCall(**value)


def read_calls(path: Path) -> Iterator[ModelCall]:
    """Yield the calls of a log in the order in which they were answered.

    A last line without its line break was torn by a crash and is left out; its answer was
    never sent. Any other line that cannot be read raises RunFailedError with file and line.
    """
    for number, _, line in _read_lines(path):
        yield _decode(path, number, line)


def append_calls(path: Path, calls: Iterable[ModelCall]) -> None:
    """Add calls to a log that no gateway writes. RunFailedError when the disk refuses."""
    try:
        with path.open("ab") as file:
            file.write(b"".join(map(encode_call, calls)))
    except OSError as error:
        raise RunFailedError(
            f"cannot record model calls in {path}: {error.strerror}", hint="free some space on this disk"
        ) from error


class CallIndex:
    """Finds the calls of a log by their ids. One pass over the file; the calls stay on the disk."""

    def __init__(self, path: Path) -> None:
        """Raises RunFailedError for a line that is no call; a log that is not there is empty."""
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        if path.is_file():
            for number, place, line in _read_lines(path):
                self._places[_decode(path, number, line).call_id] = (number, place)

    def read(self, call_ids: Sequence[str]) -> tuple[ModelCall, ...] | None:
        """Return these calls in this order, or None unless the log has all of them."""
        if not all(call_id in self._places for call_id in call_ids):
            return None
        calls = []
        with self._path.open("rb") as file:
            for call_id in call_ids:
                number, place = self._places[call_id]
                file.seek(place)
                calls.append(_decode(self._path, number, file.readline()))
        return tuple(calls)


def _read_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield number (from 1), byte offset and text of every whole line."""
    place = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return
                yield number, place, line
                place += len(line)
    except OSError as error:
        raise RunFailedError(f"cannot read the call log {path}: {error.strerror}") from error


def _decode(path: Path, number: int, line: bytes) -> ModelCall:
    try:
        return decode_call(line)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise RunFailedError(f"{path}:{number} is not a recorded call: {error}") from error
