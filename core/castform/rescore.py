"""Score stored rollouts again, without asking a model.

The recorded replies are played to the environment as if a model gave them, so all of its code
runs again: tools, endings, rewards, group rewards. Groups stay whole. What a group's rewards
could not be repeated for is left out and counted, never guessed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmax.envs import Environment, Example
from castform.calls import ModelCall
from castform.playback import Playback, prompts_of, script_of_calls
from castform.rescore_report import Outcome, RescoredRollout, RescoreReport
from castform.rollouts import Rollout, RolloutGroup
from castform.runs import RolloutRecord
from castform.scripted_replies import Fault, Script
from castform.stored_groups import StoredGroup

SCORING_FAILURES = frozenset(
    {"reward_error", "group_reward_error", "judge_error", "verifier_error", "verifier_timeout"}
)
"""The conversation was whole and its scoring failed: it may succeed now."""

NO_CALLS = "its calls were not kept"
NONE_RECORDED = "it made no call that was recorded"
SIBLING = "calls of a sibling were not kept"
MISSING = "its example is missing"

Examples = Mapping[tuple[str, str], Example[Any]]
"""By split and id."""
ReadCalls = Callable[[RolloutRecord], Sequence[ModelCall] | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class RescoreOptions:
    """How rollouts are scored again: as the run scored them."""

    weights: Mapping[str, float]
    timeout_seconds: float = 600.0
    """Of one group."""
    concurrency: int = 128
    """Rollouts at the same time, about."""
    seed: int = 0
    """Of the intervals."""


async def rescore(
    environment: Environment[Any, Any],
    groups: Sequence[StoredGroup],
    *,
    examples: Examples,
    read_calls: ReadCalls,
    options: RescoreOptions,
    on_group: Callable[[StoredGroup, RolloutGroup], None] = lambda stored, again: None,
) -> RescoreReport:
    """Play every group's recorded replies and compare what they earn now with what they earned.

    `read_calls` gives a rollout's calls, None when they were not kept. `on_group` gets each group
    with the rollouts that were compared. What the environment does wrong becomes rollouts that are
    not scored now, with the reason.
    """
    work = _Rescoring(environment, examples, read_calls, options, on_group)
    queue = iter(groups)
    largest = max((len(group.rollouts) for group in groups), default=1)
    async with Playback() as work.playback:
        workers = [
            asyncio.create_task(work.work(queue))
            for _ in range(min(len(groups), max(1, options.concurrency // largest)))
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
    order = {r.rollout_id: place for place, r in enumerate(r for group in groups for r in group.rollouts)}
    return RescoreReport(
        rollouts=tuple(sorted(work.compared, key=lambda found: order[found.rollout_id])),
        skipped=dict(work.skipped.most_common()),
        missing_examples=tuple(dict.fromkeys(work.missing)),
        seed=options.seed,
    )


class _Rescoring:
    """The work in progress: what was compared so far."""

    playback: Playback

    def __init__(
        self,
        environment: Environment[Any, Any],
        examples: Examples,
        read_calls: ReadCalls,
        options: RescoreOptions,
        on_group: Callable[[StoredGroup, RolloutGroup], None],
    ) -> None:
        self.environment = environment
        self.examples = examples
        self.read_calls = read_calls
        self.options = options
        self.on_group = on_group
        self.compared: list[RescoredRollout] = []
        self.skipped: Counter[str] = Counter()
        self.missing: list[str] = []

    async def work(self, queue: Iterator[StoredGroup]) -> None:
        for group in queue:
            await self._rescore_group(group)

    async def _rescore_group(self, group: StoredGroup) -> None:
        example = self.examples.get((group.split, group.example_id))
        if example is None:
            self.skipped[MISSING] += len(group.rollouts)
            self.missing.append(group.example_id)
            return
        calls = self._select(group)
        if calls is None:
            return
        again = await self.playback.play(
            self.environment,
            example,
            _make_scripts(group, calls),
            group_id=group.group_id,
            split=group.split,
            weights=self.options.weights,
            timeout_seconds=self.options.timeout_seconds,
        )
        played = {rollout.sample: rollout for rollout in again.rollouts}
        kept = [(first, played[first.sample]) for first in group.rollouts if first.sample in calls]
        self.compared += [_compare(first, calls[first.sample], second) for first, second in kept]
        self.on_group(
            group,
            RolloutGroup(
                group_id=group.group_id,
                example_id=group.example_id,
                rollouts=tuple(second for _, second in kept),
            ),
        )

    def _select(self, group: StoredGroup) -> dict[int, Sequence[ModelCall]] | None:
        """Return the calls of the samples that can be played again; None when the group has none.

        One whose own calls are lost takes its siblings with it: they may have been scored together.
        """
        scorable = self.environment.scorable_termination_reasons
        calls: dict[int, Sequence[ModelCall]] = {}
        lost = 0
        for rollout in group.rollouts:
            reason = rollout.termination_reason
            if rollout.score is None and reason not in scorable and reason not in SCORING_FAILURES:
                self.skipped[f"it ended by {reason}"] += 1
                continue
            found = self.read_calls(rollout)
            if found is None or (not found and reason != "context_exceeded"):
                self.skipped[NO_CALLS if found is None else NONE_RECORDED] += 1
                lost += 1
                continue
            calls[rollout.sample] = found
        if lost and calls:
            self.skipped[SIBLING] += len(calls)
        return None if lost or not calls else calls


def _make_scripts(group: StoredGroup, calls: Mapping[int, Sequence[ModelCall]]) -> list[Script]:
    """Return a script for every sample up to the last; one that failed then fails now, before it says anything."""
    reasons = {rollout.sample: rollout.termination_reason for rollout in group.rollouts}
    return [
        script_of_calls(calls[sample], reasons[sample]) if sample in calls else _fail
        for sample in range(max(reasons) + 1)
    ]


def _fail(request: object) -> Fault:
    return Fault(status=400, message="this rollout had failed when it was recorded")


def _compare(first: RolloutRecord, calls: Sequence[ModelCall], second: Rollout) -> RescoredRollout:
    return RescoredRollout(
        rollout_id=first.rollout_id,
        example_id=first.example_id,
        mode=first.mode,
        step=first.step,
        sample=first.sample,
        before=Outcome(
            score=first.score,
            rewards=first.rewards,
            termination_reason=first.termination_reason,
            error=first.error,
        ),
        after=Outcome(
            score=second.score,
            rewards=second.rewards,
            termination_reason=second.termination_reason,
            error=second.error,
        ),
        diverged=prompts_of(calls) != prompts_of(second.calls),
    )
