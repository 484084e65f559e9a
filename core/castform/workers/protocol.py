"""What a host and its worker processes say to each other: JSON objects, each behind its length.

A frame is four bytes, the length of what follows in network order, and that many bytes of UTF-8
JSON. Frames have pipes of their own; a worker's stdout and stderr are the environment's. Nothing
is pickled: neither side runs what the other sent.

From the host, by `t`:

    load         protocol, id, args or section, import_path, log_level    once, first
    dataset      call, split, base_dir, max_examples, replay          create_dataset
    gold         call, example                                        gold(example)
    diagnostics  call                                                 validation_diagnostics()
    ready        call                                                 check_ready()
    run          call, example, split, fields, requests, attempts     run_group (or only its attempts)
    cancel       call                                                 of a run
    take_back                                                         calls that are not begun
    slot         ticket                                               a rollout may start
    close                                                             aclose, then the end

From a worker:

    hello        protocol, castform, pid                              once, first
    loaded       what the environment is; or failed, with the error
    examples     call, examples                                       a part of a dataset
    events       call, events                                         attempts and model calls, as they end
    logs         records                                              of the `logging` module
    answer       call, value, error, cancelled or untouched           the last word on a call
    beat         silent, stuck, place                                 several times a second
    slot_wanted, slot_done   ticket                                   max_concurrent_rollouts, kept by the host
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from castform.plain_values import make_plain

PROTOCOL_VERSION = 2
MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Longer ones are never sent; a length beyond it means that something else writes to the pipe."""
BEAT_SECONDS = 0.25
WORKER_LOST = "worker_lost"
"""Termination reason of a rollout whose process died."""
_LENGTH = struct.Struct("!I")

Frame: TypeAlias = Mapping[str, Any]  # Any: JSON


class ProtocolError(Exception):
    """What came is not a frame."""


class FrameTooLargeError(ValueError):
    """A message that would not fit into a frame."""


def encode_frame(message: Frame) -> bytes:
    """Return a message as bytes. Objects that JSON does not know become what the run store makes of them.

    FrameTooLargeError: it is beyond `MAX_FRAME_BYTES`.
    """
    body = json.dumps(message, separators=(",", ":"), default=make_plain).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLargeError(f"a message of {len(body):,} bytes; at most {MAX_FRAME_BYTES:,} fit")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Takes bytes as they come and gives whole messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add bytes; yield the messages that are complete now. ProtocolError when they are none."""
        self._data += data
        start = 0
        try:
            while len(self._data) - start >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._data, start)
                if length > MAX_FRAME_BYTES:
                    raise ProtocolError(
                        f"a frame of {length:,} bytes, at most {MAX_FRAME_BYTES:,} are allowed"
                    )
                end = start + _LENGTH.size + length
                if len(self._data) < end:
                    return
                body = bytes(self._data[start + _LENGTH.size : end])
                start = end
                yield _decode(body)
        finally:
            del self._data[:start]


def _decode(body: bytes) -> Frame:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not JSON: {body[:80]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("t"), str):
        raise ProtocolError(f"a frame that is not a message: {body[:80]!r}")
    return message
