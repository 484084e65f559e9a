"""What a dialect is made of, and the server-sent events that all of them write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from castform_trainer.gateway.chat import Answer
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.request import ChatRequest
from castform_trainer.gateway.sessions import Session

ReadRequest = Callable[[bytes, Session, str], ChatRequest]
"""(body, session, the model's own name) -> request; ApiError for what cannot be done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """A streamed reply that is not there yet, and what the client has been sent meanwhile."""

    digest: str
    """As the answer will have it."""
    created: int
    beats: int
    """Signs of life that went before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One request and reply shape. Every function but `read` is pure."""

    name: str
    read: ReadRequest
    write: Callable[[Answer], Mapping[str, Any]]
    """The reply as one JSON object."""
    stream: Callable[[Answer, int], Iterable[bytes]]
    """The reply as server-sent events, after so many signs of life."""
    describe_error: Callable[[ApiError], Mapping[str, Any]]
    """The body of an answer that is an error."""
    stream_error: Callable[[ApiError, ChatRequest, Waiting], bytes]
    """The events that end a stream whose reply failed."""
    keep_alive: Callable[[ChatRequest, Waiting], bytes]
    """A sign of life in a stream: what this API's clients take for one."""
    streamed_codes: frozenset[str] = frozenset()
    """Errors that a client which streams looks for in the stream, not in the status."""


def write_event(value: Mapping[str, Any]) -> bytes:
    """Return a server-sent event that is named after the `type` of its data."""
    data = json.dumps(value, separators=(",", ":"))
    return f"event: {value['type']}\ndata: {data}\n\n".encode()
