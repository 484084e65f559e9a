"""Score the same transcripts a second time: a reward that changes its mind cannot be learned.

The recorded replies are played back to the environment by a scripted server, so the whole
path is repeated, tools included, whatever kind of environment it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmax.envs import Environment, Example
from castform.playback import Playback, prompts_of, script_of_calls
from castform.rollouts import Rollout, RolloutGroup, Split

TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that came out otherwise the second time."""

    example_id: str
    rollout_id: str
    what: str
    """A reward component, or `termination reason`."""
    first: object
    second: object


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayReport:
    """What scoring again showed."""

    rollouts: int
    """How many were played again."""
    skipped: int
    """Without recorded calls, or ended by a failure that replies cannot repeat."""
    differences: Sequence[Difference]
    diverged: Sequence[str]
    """Ids of rollouts in which the environment asked something else the second time."""


async def replay_groups(
    environment: Environment[Any, Any],
    played: Sequence[tuple[Example[Any], RolloutGroup]],
    *,
    split: Split,
    weights: Mapping[str, float],
    timeout_seconds: float,
) -> ReplayReport:
    """Play each group's recorded replies again and compare the rewards."""
    differences: list[Difference] = []
    diverged: list[str] = []
    replayed = skipped = 0
    async with Playback() as playback:
        for place, (example, group) in enumerate(played):
            scorable = environment.scorable_termination_reasons
            if any(not r.calls or r.termination_reason not in scorable for r in group.rollouts):
                skipped += len(group.rollouts)
                continue
            again = await playback.play(
                environment,
                example,
                [script_of_calls(r.calls, r.termination_reason) for r in group.rollouts],
                group_id=f"replay-{place}",
                split=split,
                weights=weights,
                timeout_seconds=timeout_seconds,
            )
            for first, second in zip(group.rollouts, again.rollouts, strict=True):
                replayed += 1
                differences += _compare(first, second)
                if prompts_of(first.calls) != prompts_of(second.calls):
                    diverged.append(first.rollout_id)
    return ReplayReport(
        rollouts=replayed, skipped=skipped, differences=tuple(differences), diverged=tuple(diverged)
    )


def _compare(first: Rollout, second: Rollout) -> list[Difference]:
    found: list[tuple[str, object, object]] = []
    if first.termination_reason != second.termination_reason:
        found.append(("termination reason", first.termination_reason, second.termination_reason))
    else:
        for name in sorted({*first.rewards, *second.rewards}):
            before, after = first.rewards.get(name), second.rewards.get(name)
            if before is None or after is None or abs(before - after) > TOLERANCE:
                found.append((name, before, after))
    return [
        Difference(
            example_id=first.example_id, rollout_id=first.rollout_id, what=what, first=before, second=after
        )
        for what, before, after in found
    ]
