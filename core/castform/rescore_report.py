"""What scoring again showed: per rollout, per component, per example."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from castform.eval_result import DEFAULT_PASS_AT, EvalResult, ExampleResult, RolloutResult
from castform.lengths import RolloutLengths
from castform.verdict import SCORE, Comparison, Verdict, compare

TOLERANCE = 1e-6
RESAMPLES = 2000
"""Of the bootstrap; enough for two digits of an interval."""
_NO_LENGTHS = RolloutLengths(turns=0, prompt_tokens=None, completion_tokens=None, context_tokens=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a rollout earned, or why it was not scored."""

    score: float | None
    rewards: Mapping[str, float]
    termination_reason: str
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RescoredRollout:
    """One rollout, before and after."""

    rollout_id: str
    example_id: str
    mode: str
    step: int
    sample: int
    before: Outcome
    after: Outcome
    diverged: bool
    """The environment asked something else this time, so the replies may not fit."""

    @property
    def scored_twice(self) -> bool:
        return self.before.score is not None and self.after.score is not None

    @property
    def changes(self) -> dict[str, tuple[object, object]]:
        """What came out otherwise: components, or how the rollout ended."""
        before, after = self.before, self.after
        found: dict[str, tuple[object, object]] = {}
        if before.termination_reason != after.termination_reason:
            found["termination reason"] = (before.termination_reason, after.termination_reason)
        for name in sorted({*before.rewards, *after.rewards}):
            old, new = before.rewards.get(name), after.rewards.get(name)
            if old is None or new is None or abs(old - new) > TOLERANCE:
                found[name] = (old, new)
        if not found and _differ(before.score, after.score):
            found[SCORE] = (before.score, after.score)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentChange:
    """The score, or a component, over the rollouts that have it."""

    name: str
    before: float | None
    """Mean over examples; None when no rollout had it. With `difference`, over the same examples."""
    after: float | None
    difference: float | None
    """Mean of after - before; None when no rollout has both."""
    low: float | None
    """95 % interval of the difference, paired by example."""
    high: float | None
    changed: int
    """Rollouts in which it came out otherwise."""
    rollouts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeChange:
    """Mean score over the rollouts of one mode that were scored both times."""

    mode: str
    before: float | None
    after: float | None
    changed: int
    rollouts: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleChange:
    """One example's mean score, over the rollouts that were scored both times."""

    example_id: str
    before: float | None
    after: float | None
    changed: int
    rollouts: int

    @property
    def difference(self) -> float:
        """0 when one side was not scored."""
        return 0.0 if self.before is None or self.after is None else self.after - self.before


_Value = Callable[[Outcome], float | None]


@dataclass(frozen=True, kw_only=True)
class RescoreReport:
    """Every rollout that was scored again, and how many were not."""

    rollouts: Sequence[RescoredRollout]
    skipped: Mapping[str, int]
    """By reason."""
    missing_examples: Sequence[str]
    """Ids that the environment's dataset no longer has."""
    seed: int = 0

    @cached_property
    def changed(self) -> list[RescoredRollout]:
        return [rollout for rollout in self.rollouts if rollout.changes]

    @property
    def diverged(self) -> list[str]:
        return [rollout.rollout_id for rollout in self.rollouts if rollout.diverged]

    @property
    def newly_scored(self) -> int:
        return sum(r.before.score is None and r.after.score is not None for r in self.rollouts)

    @property
    def no_longer_scored(self) -> int:
        return sum(r.before.score is not None and r.after.score is None for r in self.rollouts)

    @cached_property
    def components(self) -> list[ComponentChange]:
        """The score, then each component by name."""
        verdict = self._verdict
        paired: dict[str, Comparison] = {found.name: found for found in verdict.components}
        names = sorted({name for r in self.rollouts for o in (r.before, r.after) for name in o.rewards})
        return [
            self._component(SCORE, lambda outcome: outcome.score, verdict.score),
            *(self._component(name, _component(name), paired.get(name)) for name in names),
        ]

    def _component(self, name: str, value: _Value, paired: Comparison | None) -> ComponentChange:
        both = [(value(rollout.before), value(rollout.after)) for rollout in self.rollouts]
        had = [(old, new) for old, new in both if old is not None or new is not None]
        return ComponentChange(
            name=name,
            before=paired.before if paired else _mean([old for old, _ in had]),
            after=paired.after if paired else _mean([new for _, new in had]),
            difference=paired.difference if paired else None,
            low=paired.low if paired else None,
            high=paired.high if paired else None,
            changed=sum(_differ(old, new) for old, new in had),
            rollouts=len(had),
        )

    @property
    def modes(self) -> list[ModeChange]:
        """Training, evaluation, … apart."""
        by_mode: dict[str, list[RescoredRollout]] = {}
        for rollout in self.rollouts:
            by_mode.setdefault(rollout.mode, []).append(rollout)
        return [
            ModeChange(
                mode=mode,
                before=_mean([r.before.score for r in found if r.scored_twice]),
                after=_mean([r.after.score for r in found if r.scored_twice]),
                changed=sum(bool(r.changes) for r in found),
                rollouts=len(found),
            )
            for mode, found in by_mode.items()
        ]

    @cached_property
    def examples(self) -> list[ExampleChange]:
        """Every example that was scored again, the most changed first."""
        by_example: dict[str, list[RescoredRollout]] = {}
        for rollout in self.rollouts:
            by_example.setdefault(rollout.example_id, []).append(rollout)
        found = []
        for example_id, rollouts in by_example.items():
            both = [rollout for rollout in rollouts if rollout.scored_twice]
            found.append(
                ExampleChange(
                    example_id=example_id,
                    before=_mean([r.before.score for r in both]),
                    after=_mean([r.after.score for r in both]),
                    changed=sum(bool(r.changes) for r in rollouts),
                    rollouts=len(rollouts),
                )
            )
        return sorted(found, key=lambda e: (-abs(e.difference), -e.changed))

    @cached_property
    def _verdict(self) -> Verdict:
        both = [rollout for rollout in self.rollouts if rollout.scored_twice]
        return compare(
            self._result("before", [(r, r.before) for r in both]),
            self._result("after", [(r, r.after) for r in both]),
            seed=self.seed,
            resamples=RESAMPLES,
        )

    def _result(self, name: str, outcomes: Sequence[tuple[RescoredRollout, Outcome]]) -> EvalResult:
        by_example: dict[str, list[RolloutResult]] = {}
        for rollout, outcome in outcomes:
            by_example.setdefault(rollout.example_id, []).append(
                RolloutResult(
                    rollout_id=rollout.rollout_id,
                    score=outcome.score,
                    rewards=outcome.rewards,
                    termination_reason=outcome.termination_reason,
                    error=outcome.error,
                    finish_reasons=(),
                    lengths=_NO_LENGTHS,
                    seconds=0.0,
                )
            )
        return EvalResult(
            name=name,
            split="stored",
            samples=1,
            seed=self.seed,
            pass_at=DEFAULT_PASS_AT,
            examples=tuple(
                ExampleResult(example_id=key, rollouts=tuple(found)) for key, found in by_example.items()
            ),
            seconds=0.0,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; of the rollouts those that changed."""
        return {
            "counts": {
                "rescored": len(self.rollouts),
                "unchanged": len(self.rollouts) - len(self.changed),
                "changed": len(self.changed),
                "newly_scored": self.newly_scored,
                "no_longer_scored": self.no_longer_scored,
                "diverged": len(self.diverged),
                "skipped": sum(self.skipped.values()),
            },
            "skipped": dict(self.skipped),
            "missing_examples": list(self.missing_examples),
            "diverged": self.diverged,
            "modes": [asdict(found) for found in self.modes],
            "components": [asdict(found) for found in self.components],
            "examples": [{**asdict(found), "difference": found.difference} for found in self.examples],
            "changed": [
                {
                    **asdict(rollout),
                    "changes": {
                        name: {"before": old, "after": new} for name, (old, new) in rollout.changes.items()
                    },
                }
                for rollout in self.changed
            ],
        }


def _component(name: str) -> _Value:
    return lambda outcome: outcome.rewards.get(name)


def _differ(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is not new
    return abs(old - new) > TOLERANCE


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
