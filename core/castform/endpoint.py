"""Where an environment's model calls go: the one seam between rollouts and models.

An endpoint hands out sessions. A session is a base URL, a key and a model name that an
environment uses like any OpenAI-compatible server; afterwards the endpoint gives back
what was recorded there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from castform.calls import ModelCall, Sampling


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSpec:
    """What a session may do, fixed when it is opened."""

    session_id: str
    sampling: Sampling = field(default_factory=Sampling)
    """`sampling.seed` is the session's root seed: call i, choice j draw from a seed derived from it."""
    enforce_sampling: bool = True
    """Training: the values above win over what a client sends. Off: they are only defaults."""
    max_context_tokens: int | None = None
    """Prompt plus reply; a longer prompt is refused with `context_budget_exceeded`. None: the model's own."""
    version: int | None = None
    """Adapter version to sample from: None the newest, 0 the base model."""
    model_aliases: tuple[str, ...] = ()
    """Other model names that are served by the one model, as shell patterns. The record reports each use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionGrant:
    """How to reach an open session."""

    base_url: str
    """OpenAI-compatible, ends in /v1."""
    api_key: str = field(repr=False)
    model: str
    request_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the client has to send itself with each chat request (`temperature`, …), for a
    server that knows nothing of sessions. Empty where the endpoint sets the sampling."""


class Endpoint(Protocol):
    """A model behind HTTP, with sessions."""

    model: str

    async def open_session(self, spec: SessionSpec) -> SessionGrant:
        """Open a session. The id must be new."""
        ...

    async def collect(self, session_id: str) -> Sequence[ModelCall]:
        """Return the session's calls so far, in the order in which they were answered."""
        ...

    async def close_session(self, session_id: str) -> None:
        """End the session; what is still running there is aborted. Ending it twice is fine."""
        ...

    async def aclose(self) -> None:
        """Release the endpoint and whatever it started."""
        ...
