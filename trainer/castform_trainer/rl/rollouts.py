"""Collect the groups of one step: issue exactly what is missing, drop what teaches nothing, refill."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from benchmax.envs import Environment, Example
from castform.calls import Sampling
from castform.config import RunConfig
from castform.endpoint import Endpoint
from castform.rollouts import RolloutGroup, run_group
from castform.seeds import derive_seed
from castform_trainer.rl.accounting import Ledger
from castform_trainer.rl.advantage import AdvantageConfig
from castform_trainer.rl.judging import JudgedGroup, judge_group


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSource:
    """Everything a group needs besides its number."""

    environment: Environment[Any, Any]
    examples: Sequence[Example[Any]]
    endpoint: Endpoint
    config: RunConfig

    def example(self, number: int) -> Example[Any]:
        """Return the example of the `number`-th group of the run: epochs, each in an order of its own."""
        epoch, place = divmod(number, len(self.examples))
        return self.examples[_epoch_order(self.config.run.seed, epoch, len(self.examples))[place]]

    async def run(self, number: int, *, version: int) -> RolloutGroup:
        """Run the `number`-th group. Its seed depends on the run's seed and the number alone."""
        config = self.config
        return await run_group(
            self.environment,
            self.example(number),
            endpoint=self.endpoint,
            split="train",
            group_id=group_id(number),
            size=config.rl.group_size,
            sampling=Sampling(
                max_new_tokens=config.sampling.max_new_tokens, temperature=config.sampling.temperature
            ),
            seed=derive_seed(config.run.seed, "group", number),
            weights=config.environment.weights,
            max_context_tokens=config.sampling.max_context_tokens,
            version=version,
            timeout_seconds=config.rl.rollout_timeout_seconds,
        )


@dataclass(kw_only=True, slots=True)
class StepRollouts:
    """What one step collected."""

    judged: list[JudgedGroup] = field(default_factory=list)
    """Every group that was run, in order of issue."""
    rounds: int = 0

    @property
    def kept(self) -> list[JudgedGroup]:
        """The groups that are trained."""
        return [judged for judged in self.judged if judged.has_signal]


@lru_cache(maxsize=2)  # a step asks for many groups of one epoch, or of two
def _epoch_order(seed: int, epoch: int, size: int) -> tuple[int, ...]:
    order = list(range(size))
    random.Random(derive_seed(seed, "epoch", epoch)).shuffle(order)
    return tuple(order)


def group_id(number: int) -> str:
    """Return the id of the `number`-th training group; rollouts append their place."""
    return f"g{number:06d}"


async def collect_step(
    source: RolloutSource,
    *,
    first: int,
    version: int,
    ledger: Ledger,
    on_group: Callable[[JudgedGroup], None] | None = None,
) -> StepRollouts:
    """Run rounds of groups, numbered from `first`, until enough have signal or the refills are used up.

    Each round issues exactly the groups that are missing. Order, seeds and numbers do not depend
    on which group ends first.
    """
    limits = source.config.rl
    advantage = AdvantageConfig(
        scale="std" if limits.normalize_advantage else "none", min_valid=limits.min_valid_rollouts
    )
    gate = asyncio.Semaphore(max(1, limits.max_concurrent_rollouts // limits.group_size))
    step = StepRollouts()

    async def run_one(number: int) -> JudgedGroup:
        async with gate:
            group = await source.run(number, version=version)
        judged = judge_group(group, advantage, version=version)
        ledger.settle(judged.dispositions)
        if on_group is not None:
            on_group(judged)
        return judged

    while step.rounds <= limits.max_refills and len(step.kept) < limits.groups_per_step:
        start = first + len(step.judged)
        numbers = range(start, start + limits.groups_per_step - len(step.kept))
        ledger.issue(f"{group_id(n)}-{sample}" for n in numbers for sample in range(limits.group_size))
        step.judged += await _gather([run_one(number) for number in numbers])
        step.rounds += 1
    return step


async def _gather(work: Sequence[Any]) -> list[JudgedGroup]:
    """Await all; when one raises, the others are cancelled and awaited before it is raised."""
    tasks = [asyncio.ensure_future(item) for item in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
