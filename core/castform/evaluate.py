"""Evaluate one model on fixed examples: samples for each, a bounded number in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmax.envs import Environment, Example
from castform.calls import Sampling
from castform.endpoint import Endpoint
from castform.eval_result import DEFAULT_PASS_AT, EvalResult, ExampleResult, summarize_group
from castform.rollouts import RolloutGroup, Split, run_group
from castform.seeds import derive_seed

RECORD_BATCH = 64
"""Rollouts that are stored in one transaction."""


async def evaluate(
    environment: Environment[Any, Any],
    examples: Sequence[Example[Any]],
    *,
    endpoint: Endpoint,
    samples: int,
    sampling: Sampling,
    seed: int = 0,
    split: Split = "eval",
    name: str = "eval",
    weights: Mapping[str, float] | None = None,
    concurrency: int = 128,
    enforce_sampling: bool = False,
    max_context_tokens: int | None = None,
    version: int | None = None,
    timeout_seconds: float = 600.0,
    pass_at: float = DEFAULT_PASS_AT,
    on_group: Callable[[RolloutGroup], None] | None = None,
    record: Callable[[Sequence[RolloutGroup]], None] | None = None,
) -> EvalResult:
    """Run `samples` rollouts for each example, at most about `concurrency` at a time.

    Siblings run together, as in training, so group rewards work. Seeds depend on `seed`, the
    example and the sample only: two models are asked in the same way. Groups are called
    `<name>-<place>`; `name` must be new to the endpoint. `on_group` is called as each group
    ends; `record` gets the groups in batches, in a thread, and must not be slow for ever.
    Raises what the endpoint or `record` raises; what the environment does wrong is counted.
    """
    if samples < 1 or concurrency < 1:
        raise ValueError(f"samples is {samples} and concurrency {concurrency}; both must be at least 1")
    began = time.perf_counter()
    results: list[ExampleResult | None] = [None] * len(examples)
    recorder = _Recorder(record)
    queue = iter(enumerate(examples))

    async def work(queue: Iterator[tuple[int, Example[Any]]]) -> None:
        for place, example in queue:
            group = await run_group(
                environment,
                example,
                endpoint=endpoint,
                split=split,
                group_id=f"{name}-{place}",
                size=samples,
                sampling=sampling,
                seed=derive_seed(seed, "eval", example.id),
                weights=weights or {},
                enforce_sampling=enforce_sampling,
                max_context_tokens=max_context_tokens,
                version=version,
                timeout_seconds=timeout_seconds,
            )
            results[place] = summarize_group(group)
            if on_group is not None:
                on_group(group)
            await recorder.add(group)

    workers = [
        asyncio.create_task(work(queue), name=f"{name}-worker-{i}")
        for i in range(min(len(examples), max(1, concurrency // samples)))
    ]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await recorder.flush()  # of a run that was stopped, what it has is kept
    return EvalResult(
        name=name,
        split=split,
        samples=samples,
        seed=seed,
        pass_at=pass_at,
        examples=tuple(result for result in results if result is not None),
        seconds=time.perf_counter() - began,
    )


class _Recorder:
    """Hands groups on in batches, one batch at a time, off the event loop."""

    def __init__(self, record: Callable[[Sequence[RolloutGroup]], None] | None) -> None:
        self._record = record
        self._waiting: list[RolloutGroup] = []
        self._rollouts = 0
        self._broken = False
        self._busy = asyncio.Lock()

    async def add(self, group: RolloutGroup) -> None:
        if self._record is None:
            return
        self._waiting.append(group)
        self._rollouts += len(group.rollouts)
        if self._rollouts >= RECORD_BATCH and not self._busy.locked():
            await self.flush()

    async def flush(self) -> None:
        if self._record is None:
            return
        async with self._busy:
            batch, self._waiting, self._rollouts = self._waiting, [], 0
            if batch and not self._broken:
                try:
                    await asyncio.to_thread(self._record, batch)
                except Exception:
                    self._broken = True  # it is raised once, not again for what waits
                    raise
