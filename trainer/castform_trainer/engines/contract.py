"""What samples tokens. Everything above it is the same, whichever engine is behind.

`tests/contract/test_engine_contract.py` holds every engine to this page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from castform.calls import Sampling

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """One sampled reply, as ids."""

    ids: tuple[int, ...]
    """Sampled ids, the end-of-turn id included when it was sampled."""
    logprobs: tuple[float, ...]
    """log p of each id under the distribution it was drawn from (temperature and filters applied).
    With temperature 0 it is the untempered log p of the chosen id."""
    finish_reason: FinishReason
    """stop: an end id or a stop text; length: a limit; abort: cancelled."""
    version: int
    """Adapter version in force; 0 is the base model."""


class GenerationCancelled(asyncio.CancelledError):
    """What a cancelled `generate` raises when it can tell what was sampled until then."""

    def __init__(self, partial: Generation) -> None:
        super().__init__()
        self.partial = partial


class Engine(Protocol):
    """Samples token ids from a causal language model, with adapters swapped while it runs.

    All coroutines may be called from any event loop and concurrently. Cancelling `generate`
    frees its place in the batch; an engine that knows what was sampled so far says it by
    raising `GenerationCancelled`.
    """

    name: str
    max_context_tokens: int
    """Prompt plus reply, in tokens."""
    eos_token_ids: tuple[int, ...]

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, version: int | None = None
    ) -> Generation:
        """Sample one reply to `prompt_ids`.

        `sampling.seed` alone decides the draw: the same prompt, sampling and version give the
        same ids, up to rounding that depends on the batch (none in deterministic mode).
        `version` None means the newest loaded adapter, or the base model when there is none.
        Stops by `max_context_tokens` with "length". Raises ValueError for a prompt that is empty
        or leaves no room for one token, KeyError for a version that is not loaded.
        """
        ...

    async def load_adapter(self, path: Path, version: int) -> None:
        """Load a PEFT LoRA folder as `version` (> 0, larger than any before) and make it the newest.

        Replies that are being sampled keep the version they began with.
        """
        ...

    async def unload(self, version: int) -> None:
        """Forget an adapter version. Unloading one that is not loaded is fine."""
        ...

    async def logprobs(self, ids: Sequence[int], *, version: int | None = None) -> list[float]:
        """log p of ids[1:] given what precedes each, at temperature 1: len(ids) - 1 values.

        The canary compares these with the trainer's; an engine with a prefix cache must
        compute them on the path that sampling uses.
        """
        ...

    async def close(self) -> None:
        """Stop the engine and whatever it started. Waiting calls end with finish_reason "abort"."""
        ...
