"""What an evaluation found: every rollout's rewards, and the figures made from them.

Failures are counted, never averaged: a rollout without a score has no part in any mean.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from castform.fidelity import CallFidelity, count_calls, sum_fidelity
from castform.intervals import bootstrap_interval
from castform.lengths import RolloutLengths, measure_lengths
from castform.rollouts import Rollout, RolloutGroup

DEFAULT_PASS_AT = 1.0
INTERVAL_RESAMPLES = 1000
"""Enough for two digits; verdicts use more."""
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutResult:
    """What an evaluation keeps of a rollout; transcript and calls go to the store."""

    rollout_id: str
    score: float | None
    rewards: Mapping[str, float]
    termination_reason: str
    error: str | None
    finish_reasons: Sequence[str]
    """Of each model call, in order."""
    lengths: RolloutLengths
    seconds: float
    fidelity: CallFidelity | None = None
    """None where the calls have no token data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleResult:
    """All samples of one example."""

    example_id: str
    rollouts: Sequence[RolloutResult]

    @property
    def scored(self) -> list[RolloutResult]:
        return [rollout for rollout in self.rollouts if rollout.score is not None]

    @property
    def score(self) -> float | None:
        """Mean score of the scored samples; None when there are none."""
        scores = [rollout.score for rollout in self.rollouts if rollout.score is not None]
        return statistics.fmean(scores) if scores else None

    def component(self, name: str) -> float | None:
        """Mean of one reward component over the samples that have it."""
        values = [rollout.rewards[name] for rollout in self.scored if name in rollout.rewards]
        return statistics.fmean(values) if values else None

    @property
    def has_signal(self) -> bool:
        """Whether the samples' scores differ, so that there is something to learn from."""
        scores = [rollout.score for rollout in self.rollouts if rollout.score is not None]
        return bool(scores) and max(scores) - min(scores) > _TOLERANCE


@dataclass(frozen=True, kw_only=True, slots=True)
class Mean:
    """A mean over examples of each example's mean, with a 95 % bootstrap interval over examples."""

    mean: float
    low: float
    high: float
    stdev: float
    """Standard deviation over rollouts."""
    rollouts: int
    examples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalResult:
    """One evaluation of one model on fixed examples."""

    name: str
    split: str
    samples: int
    """Rollouts asked for per example."""
    seed: int
    pass_at: float
    """A score of at least this is a pass."""
    examples: Sequence[ExampleResult]
    seconds: float

    @property
    def rollouts(self) -> list[RolloutResult]:
        return [rollout for example in self.examples for rollout in example.rollouts]

    @property
    def failures(self) -> dict[str, int]:
        """How many rollouts have no score, by termination reason."""
        return _counts(r.termination_reason for r in self.rollouts if r.score is None)

    @property
    def termination_reasons(self) -> dict[str, int]:
        return _counts(rollout.termination_reason for rollout in self.rollouts)

    @property
    def finish_reasons(self) -> dict[str, int]:
        """How many model calls ended how."""
        return _counts(reason for rollout in self.rollouts for reason in rollout.finish_reasons)

    @property
    def fidelity(self) -> CallFidelity | None:
        """What the prompts of all calls were made of; None where the calls have no token data."""
        return sum_fidelity([rollout.fidelity for rollout in self.rollouts])

    @property
    def components(self) -> list[str]:
        return sorted({name for rollout in self.rollouts for name in rollout.rewards})

    @property
    def signal_share(self) -> float | None:
        """Share of the examples with two scored samples or more whose scores differ."""
        groups = [example for example in self.examples if len(example.scored) >= 2]
        return sum(group.has_signal for group in groups) / len(groups) if groups else None

    @property
    def seconds_per_rollout(self) -> float:
        """Median time of one rollout, others running beside it."""
        return statistics.median(rollout.seconds for rollout in self.rollouts) if self.examples else 0.0

    def score(self) -> Mean | None:
        """Mean score; None when no rollout was scored."""
        values = [rollout.score for rollout in self.rollouts if rollout.score is not None]
        return self._mean([example.score for example in self.examples], values)

    def component(self, name: str) -> Mean | None:
        """Mean of one reward component."""
        values = [rollout.rewards[name] for rollout in self.rollouts if name in rollout.rewards]
        return self._mean([example.component(name) for example in self.examples], values)

    def _mean(self, per_example: Iterable[float | None], values: Sequence[float]) -> Mean | None:
        means = [value for value in per_example if value is not None]
        if not means:
            return None
        low, high = bootstrap_interval(means, seed=self.seed, resamples=INTERVAL_RESAMPLES)
        return Mean(
            mean=statistics.fmean(means),
            low=low,
            high=high,
            stdev=statistics.pstdev(values),
            rollouts=len(values),
            examples=len(means),
        )

    def pass_at_k(self, k: int) -> float | None:
        """Return pass@k over the examples with at least k scored samples; None when there are none."""
        shares = [
            pass_at_k(len(scores), sum(score >= self.pass_at - _TOLERANCE for score in scores), k)
            for example in self.examples
            if len(scores := [r.score for r in example.rollouts if r.score is not None]) >= k
        ]
        return statistics.fmean(shares) if shares else None

    def length(self, field: str) -> dict[str, float] | None:
        """Return mean, median, p95 and max of a field of RolloutLengths over the rollouts that know it."""
        values = sorted(v for r in self.rollouts if (v := getattr(r.lengths, field)) is not None)
        if not values:
            return None
        return {
            "mean": statistics.fmean(values),
            "median": statistics.median(values),
            "p95": values[math.ceil(0.95 * len(values)) - 1],
            "max": values[-1],
        }

    def as_dict(self, *, with_examples: bool = True) -> dict[str, Any]:
        """Return everything as JSON values; `from_dict` reads it back when the examples are in it."""
        score, fidelity = self.score(), self.fidelity
        ks = sorted({1, *(2**i for i in range(1, 12) if 2**i <= self.samples), self.samples})
        data: dict[str, Any] = {
            "name": self.name,
            "split": self.split,
            "samples": self.samples,
            "seed": self.seed,
            "pass_at": self.pass_at,
            "seconds": self.seconds,
            "counts": {
                "examples": len(self.examples),
                "rollouts": len(self.rollouts),
                "scored": sum(rollout.score is not None for rollout in self.rollouts),
                "failed": sum(self.failures.values()),
            },
            "failures": self.failures,
            "score": None if score is None else asdict(score),
            "components": {
                name: asdict(mean) for name in self.components if (mean := self.component(name)) is not None
            },
            "pass_at_k": {str(k): self.pass_at_k(k) for k in ks},
            "signal_share": self.signal_share,
            "seconds_per_rollout": self.seconds_per_rollout,
            "termination_reasons": self.termination_reasons,
            "finish_reasons": self.finish_reasons,
            "fidelity": None if fidelity is None else asdict(fidelity),
            "lengths": {
                name: self.length(name)
                for name in ("turns", "prompt_tokens", "completion_tokens", "context_tokens")
            },
        }
        if with_examples:
            data["per_example"] = [
                {"example_id": example.example_id, "rollouts": [asdict(r) for r in example.rollouts]}
                for example in self.examples
            ]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvalResult:
        """Build a result from `as_dict(with_examples=True)`, as the run store gives it back."""
        return cls(
            **{name: data[name] for name in ("name", "split", "samples", "seed", "pass_at", "seconds")},
            examples=tuple(
                ExampleResult(
                    example_id=example["example_id"],
                    rollouts=tuple(
                        RolloutResult(
                            **{
                                **rollout,
                                "finish_reasons": tuple(rollout["finish_reasons"]),
                                "lengths": RolloutLengths(**rollout["lengths"]),
                                "fidelity": _read_fidelity(rollout.get("fidelity")),
                            }
                        )
                        for rollout in example["rollouts"]
                    ),
                )
                for example in data["per_example"]
            ),
        )


def _read_fidelity(counts: Mapping[str, int] | None) -> CallFidelity | None:
    return None if counts is None else CallFidelity(**counts)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased chance that one of k samples passes, when c of n did (Chen et al. 2021).

    1 - C(n-c, k) / C(n, k). ValueError unless 0 <= c <= n and 1 <= k <= n.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {c} passes in {n} samples does not exist")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def summarize_group(group: RolloutGroup) -> ExampleResult:
    """Keep of a group what an EvalResult needs."""
    return ExampleResult(
        example_id=group.example_id, rollouts=tuple(_summarize(rollout) for rollout in group.rollouts)
    )


def _summarize(rollout: Rollout) -> RolloutResult:
    return RolloutResult(
        rollout_id=rollout.rollout_id,
        score=rollout.score,
        rewards=dict(rollout.rewards),
        termination_reason=rollout.termination_reason,
        error=rollout.error,
        finish_reasons=tuple(call.finish_reason for call in rollout.calls),
        fidelity=count_calls(rollout.calls),
        lengths=measure_lengths(rollout.calls),
        seconds=rollout.seconds,
    )


def _counts(items: Iterable[str]) -> dict[str, int]:
    return dict(Counter(items).most_common())
