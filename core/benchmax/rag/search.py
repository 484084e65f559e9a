"""What a search backend offers, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypedDict, runtime_checkable

PREFERRED_MODES = ("hybrid", "lexical")
"""Tried in this order when a search does not say how."""


class SearchResult(TypedDict):
    """One document, or a piece of one."""

    content: str
    source: str
    """What an answer cites: a file name, a path, an id."""
    metadata: dict[str, Any]
    score: float


@runtime_checkable
class SearchClient(Protocol):
    """Finds documents. `benchmax.rag.RagEnv` works on any."""

    async def search(self, query: str, mode: str = "auto", top_k: int = 10) -> list[SearchResult]:
        """Return at most `top_k` results, the best first.

        ValueError or TypeError: the query cannot be searched for, which the model is told.
        Anything else that is raised is an outage, and the rollout is not scored.
        """
        ...

    @property
    def available_modes(self) -> list[str]:
        """The modes that `search` takes, such as "lexical", "vector" and "hybrid"."""
        ...


def choose_mode(available: Sequence[str]) -> str:
    """Return the mode of a search that names none: hybrid, else lexical, else the first. "auto" of none."""
    for mode in PREFERRED_MODES:
        if mode in available:
            return mode
    return available[0] if available else "auto"
