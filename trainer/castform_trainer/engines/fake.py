"""An engine without a model: scripted replies, or ids drawn from a hash. Torch-free.

It keeps every promise of the contract (seeds, stops, limits, versions, cancellation), so
whatever sits on an engine can be tested against it in microseconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from castform.calls import Sampling
from castform_trainer.engines.contract import FinishReason, Generation

Script = Callable[[Sequence[int], Sampling], Sequence[int]]
"""Gives the ids to answer a prompt with. What follows an end id is dropped; with no end id
the reply runs into "length" only if it reaches a limit, else it ends with "stop"."""
Decode = Callable[[Sequence[int]], str]


class FakeEngine:
    """Answers from `script`, or, without one, with ids that a hash of everything so far picks.

    The hash spreads over `vocabulary` ids; each next id is drawn from two candidates with
    probabilities 3/4 and 1/4 (temperature 0: always the first), so logprobs are exact.
    `adapter_seeds` holds the loaded versions; every version draws from other candidates.
    """

    def __init__(
        self,
        *,
        script: Script | None = None,
        decode: Decode | None = None,
        vocabulary: int = 64,
        eos_token_ids: Sequence[int] = (2,),
        max_context_tokens: int = 4096,
        gate: asyncio.Event | None = None,
    ) -> None:
        """`decode` turns ids into text and is needed for stop texts; while `gate` is unset, replies wait."""
        self.name = "fake"
        self.max_context_tokens = max_context_tokens
        self.eos_token_ids = tuple(eos_token_ids)
        self.prompts: list[tuple[int, ...]] = []
        """Every prompt, in the order of arrival."""
        self.running = 0
        """Replies that have begun and not ended."""
        self.versions: list[int] = [0]
        self._script = script
        self._decode = decode
        self._vocabulary = vocabulary
        self._gate = gate
        self._closed = asyncio.Event()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, version: int | None = None
    ) -> Generation:
        """See the contract."""
        used = self._resolve(version)
        room = self.max_context_tokens - len(prompt_ids)
        if not prompt_ids or room < 1:
            raise ValueError(
                f"a prompt of {len(prompt_ids)} tokens leaves no room in {self.max_context_tokens}"
            )
        self.prompts.append(tuple(prompt_ids))
        self.running += 1
        try:
            await self._wait_for_gate()
        finally:
            self.running -= 1
        if self._closed.is_set():
            return Generation(ids=(), logprobs=(), finish_reason="abort", version=used)
        return self._answer(prompt_ids, sampling, used, min(sampling.max_new_tokens, room))

    async def load_adapter(self, path: Path, version: int) -> None:
        """Remember the version; the folder must exist."""
        if version <= max(self.versions):
            raise ValueError(f"version {version} is not larger than {max(self.versions)}")
        if not path.is_dir():  # noqa: ASYNC240 - one stat of a local path
            raise FileNotFoundError(path)
        self.versions.append(version)

    async def unload(self, version: int) -> None:
        """See the contract."""
        if version in self.versions and version != 0:
            self.versions.remove(version)

    async def logprobs(self, ids: Sequence[int], *, version: int | None = None) -> list[float]:
        """See the contract. Ids that the hash would never pick have -inf."""
        used = self._resolve(version)
        values = []
        for end in range(1, len(ids)):
            first, second = self._candidates(ids[:end], used)
            values.append(
                math.log(0.75 if ids[end] == first else 0.25) if ids[end] in (first, second) else -math.inf
            )
        return values

    async def close(self) -> None:
        """Let whatever waits end with "abort"."""
        self._closed.set()

    def _resolve(self, version: int | None) -> int:
        if self._closed.is_set():
            raise RuntimeError("the engine is closed")
        if version is None:
            return self.versions[-1]
        if version not in self.versions:
            raise KeyError(version)
        return version

    async def _wait_for_gate(self) -> None:
        if self._gate is None:
            await asyncio.sleep(0)
            return
        waits = [asyncio.ensure_future(event.wait()) for event in (self._gate, self._closed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _answer(self, prompt_ids: Sequence[int], sampling: Sampling, version: int, limit: int) -> Generation:
        ends = {*self.eos_token_ids, *sampling.stop_token_ids}
        planned = list(self._script(prompt_ids, sampling)) if self._script else None
        ids: list[int] = []
        logprobs: list[float] = []
        reason: FinishReason = "length"
        while len(ids) < limit:
            if planned is None:
                token, logprob = self._draw([*prompt_ids, *ids], sampling, len(ids), version)
            elif len(ids) < len(planned):
                token, logprob = planned[len(ids)], math.log(0.5)
            else:
                reason = "stop"
                break
            ids.append(token)
            logprobs.append(logprob)
            if token in ends or self._has_stop_text(ids, sampling.stop):
                reason = "stop"
                break
        return Generation(ids=tuple(ids), logprobs=tuple(logprobs), finish_reason=reason, version=version)

    def _draw(self, ids: Sequence[int], sampling: Sampling, step: int, version: int) -> tuple[int, float]:
        first, second = self._candidates(ids, version)
        if sampling.temperature == 0:
            return first, math.log(0.75)
        takes_second = _hash("draw", sampling.seed, step) % 4 == 0
        return (second, math.log(0.25)) if takes_second else (first, math.log(0.75))

    def _candidates(self, ids: Sequence[int], version: int) -> tuple[int, int]:
        spot = _hash("next", version, *ids) % self._vocabulary
        return spot, (spot + 1) % self._vocabulary

    def _has_stop_text(self, ids: Sequence[int], stop: Sequence[str]) -> bool:
        if not stop:
            return False
        if self._decode is None:
            raise ValueError("stop texts need FakeEngine(decode=...)")
        text = self._decode(ids)
        return any(item in text for item in stop)


def _hash(*parts: int | str) -> int:
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big")
