"""Who may call the model: the protocol, and the two providers that need nothing else.

A provider is asked before every request, so that short-lived keys can be renewed
between two turns of one rollout.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast, runtime_checkable


@dataclass(frozen=True)
class ModelRequestContext:
    """What a provider knows about the request that it signs."""

    base_url: str
    model: str
    rollout_id: str


@runtime_checkable
class ModelAuth(Protocol):
    """Gives the headers that authorise one model request."""

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        """Return the headers to add; called before every request and every retry."""
        ...


@dataclass(frozen=True)
class StaticBearerAuth:
    """One key for every request. The key never shows in a repr."""

    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.token, str) or not self.token.strip():
            raise ValueError("token must be a non-empty string")

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        """Return the bearer header."""
        return {"Authorization": f"Bearer {self.token}"}


def check_model_auth(value: object) -> ModelAuth:
    """Return the value when it is a provider with an `async def headers_for_request`.

    TypeError otherwise. A plain `def` would pass a mere `isinstance` check and fail in the
    middle of a run.
    """
    method = None if isinstance(value, type) else getattr(value, "headers_for_request", None)
    if not callable(method):
        raise TypeError(f"{_type_name(value)} is not a ModelAuth: it has no headers_for_request(context)")
    if inspect.isroutine(method) and not inspect.iscoroutinefunction(method):
        raise TypeError(f"{_type_name(value)}.headers_for_request must be declared with `async def`")
    return cast(ModelAuth, value)  # checked above; isinstance with a protocol costs more than a whole request


async def request_headers(auth: ModelAuth, context: ModelRequestContext) -> dict[str, str]:
    """Ask the provider and check its answer. TypeError when it is not a mapping of text to text."""
    headers = await auth.headers_for_request(context)
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers_for_request must return a mapping, not {type(headers).__name__}")
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in headers.items()):
        raise TypeError("headers_for_request must map header names to text")
    return dict(headers)


def _type_name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__
