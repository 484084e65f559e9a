"""Forecast from a few samples whether groups of rollouts will give a gradient.

A group whose scores are all equal teaches nothing: advantages are differences within a group.
With a chance p of solving an example, a group of k differs with probability
1 - p^k - (1-p)^k. Other group sizes g <= k are read off the same samples: of n scores, the
share of the subsets of size g whose members are not all equal is the unbiased estimate, as
pass@k is for passing (Chen et al. 2021). Larger groups are not forecast.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any, Literal

from castform.eval_result import ExampleResult, summarize_group
from castform.intervals import wilson_interval
from castform.rollouts import RolloutGroup

TOLERANCE = 1e-9
NEARLY_BEST = 0.9
"""A group size is suggested when its useful share of the tokens is at least this part of the best one's."""
LEAST_SPREAD = 0.05
"""Least variance of per-example values that an interval assumes, of the most that their mean allows."""

Kind = Literal["effective", "too_easy", "too_hard", "level", "invalid"]
"""level: all samples earned the same, neither nothing nor full marks; invalid: fewer than two were scored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A mean over examples with its 95 % interval over examples."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SizeForecast:
    """What groups of one size would give."""

    group_size: int
    examples: int
    """Examples with at least so many scored samples."""
    effective: Share
    """Expected share of groups whose scores differ."""
    useful_tokens_per_group: float | None
    """Expected completion tokens in effective groups, a group. None: the endpoint gave no lengths."""
    useful_share: float | None
    """Expected share of the sampled tokens that lie in effective groups."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedExample:
    """An example that looks as if it never gives a gradient."""

    example_id: str
    kind: Literal["always_solved", "never_solved"]
    samples: int
    chance_low: float
    """95 % interval (Wilson) of the chance to solve it."""
    chance_high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What the samples say of training on these examples with this model."""

    examples: int
    samples: int
    """Most rollouts of one example."""
    full_score: float
    kinds: Mapping[Kind, int]
    """Examples by what their samples came to."""
    fractions: Mapping[Kind, Share]
    sizes: Sequence[SizeForecast]
    """For each group size from 2 to `samples`; empty where nothing can be said."""
    suggested_group_size: int | None
    """The smallest that keeps nearly the best share of useful tokens."""
    dropped: Sequence[DroppedExample]
    """What a filter could leave out, the surest first."""
    dropped_tokens: float | None
    """Share of the sampled tokens that went into dropped examples. None: no lengths."""

    @property
    def at_samples(self) -> SizeForecast | None:
        """The forecast for groups as large as what was sampled."""
        return self.sizes[-1] if self.sizes else None

    def useful_tokens_per_step(self, group_size: int, groups: int) -> float | None:
        """Return the expected completion tokens in effective groups of a step of `groups` groups.

        None: no lengths, or a group size that was not sampled.
        """
        for size in self.sizes:
            if size.group_size == group_size and size.useful_tokens_per_group is not None:
                return size.useful_tokens_per_group * groups
        return None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        data = asdict(self)
        data["sizes"] = [asdict(size) for size in self.sizes]
        data["dropped"] = [asdict(example) for example in self.dropped]
        return data


def forecast_signal(groups: Sequence[RolloutGroup], *, full_score: float = 1.0) -> Forecast:
    """Forecast from sampled groups, one for each example.

    `full_score` is what a right answer earns: it tells too easy from too hard.
    ValueError when there are no groups.
    """
    return forecast_results([summarize_group(group) for group in groups], full_score=full_score)


def forecast_results(results: Sequence[ExampleResult], *, full_score: float = 1.0) -> Forecast:
    """Forecast from what an evaluation kept of its groups. ValueError when there are none."""
    if not results:
        raise ValueError("a forecast needs at least one group")
    scores = [_scores(result) for result in results]
    kinds = [classify(found, full_score=full_score) for found in scores]
    names: tuple[Kind, ...] = ("effective", "too_easy", "too_hard", "level", "invalid")
    largest = max(len(found) for found in scores)
    sizes = [
        _forecast_size(results, scores, size)
        for size in range(2, largest + 1)
        if any(len(found) >= size for found in scores)
    ]
    dropped = _dropped(results, scores, kinds, full_score)
    return Forecast(
        examples=len(results),
        samples=max(len(result.rollouts) for result in results),
        full_score=full_score,
        kinds={name: kinds.count(name) for name in names},
        fractions={name: make_share([float(kind == name) for kind in kinds]) for name in names},
        sizes=tuple(sizes),
        suggested_group_size=_suggest(sizes),
        dropped=tuple(dropped),
        dropped_tokens=_dropped_tokens(results, {example.example_id for example in dropped}),
    )


def classify(scores: Sequence[float], *, full_score: float) -> Kind:
    """Return what one example's scored samples come to."""
    if len(scores) < 2:
        return "invalid"
    low, high = min(scores), max(scores)
    if high - low > TOLERANCE:
        return "effective"
    if low >= full_score - TOLERANCE:
        return "too_easy"
    return "too_hard" if high <= TOLERANCE else "level"


def effective_share(scores: Sequence[float], group_size: int) -> float:
    """Return the share of the subsets of `group_size` scores that are not all equal.

    ValueError unless 2 <= group_size <= len(scores).
    """
    n = len(scores)
    if not 2 <= group_size <= n:
        raise ValueError(f"groups of {group_size} cannot be drawn from {n} scores")
    equal = sum(math.comb(len(same), group_size) for same in _same_scores(scores))
    return 1.0 - equal / math.comb(n, group_size)


def _same_scores(scores: Sequence[float]) -> list[list[int]]:
    """Return the places of equal scores together; what is within the tolerance of the least is equal."""
    classes: list[list[int]] = []
    least = -math.inf
    for place in sorted(range(len(scores)), key=scores.__getitem__):
        if scores[place] - least > TOLERANCE:
            classes.append([])
            least = scores[place]
        classes[-1].append(place)
    return classes


def _scores(result: ExampleResult) -> list[float]:
    return [rollout.score for rollout in result.rollouts if rollout.score is not None]


def _lengths(result: ExampleResult) -> list[int] | None:
    """Return the completion tokens of the scored samples; None when one of them is unknown."""
    lengths = [rollout.lengths.completion_tokens for rollout in result.scored]
    known = [length for length in lengths if length is not None]
    return known if len(known) == len(lengths) else None


def _forecast_size(
    results: Sequence[ExampleResult], scores: Sequence[Sequence[float]], size: int
) -> SizeForecast:
    usable = [(found, _lengths(r)) for r, found in zip(results, scores, strict=True) if len(found) >= size]
    tokens = [_useful_tokens(found, lengths, size) for found, lengths in usable if lengths is not None]
    useful = total = None
    if len(tokens) == len(usable):
        useful = statistics.fmean(tokens)
        total = size * statistics.fmean(statistics.fmean(lengths) for _, lengths in usable if lengths)
    return SizeForecast(
        group_size=size,
        examples=len(usable),
        effective=make_share([effective_share(found, size) for found, _ in usable]),
        useful_tokens_per_group=useful,
        useful_share=None if useful is None or not total else useful / total,
    )


def _useful_tokens(scores: Sequence[float], lengths: Sequence[int], size: int) -> float:
    """Return the mean tokens of a subset of `size` samples, counting subsets of equal scores as 0."""
    everything = size * statistics.fmean(lengths)
    useless = sum(
        math.comb(len(same), size) * size * statistics.fmean(lengths[place] for place in same)
        for same in _same_scores(scores)
    )
    return everything - useless / math.comb(len(scores), size)


def make_share(values: Sequence[float]) -> Share:
    """Return the mean of n >= 1 values in [0, 1] with its interval.

    Wilson's interval with as many trials as a share of that variance would need: for zeros and
    ones it is Wilson's own, and it has a width even where all values are equal.
    """
    mean = statistics.fmean(values)
    n = len(values)
    most = mean * (1 - mean)
    spread = 1.0
    if n > 1 and most > TOLERANCE:
        spread = min(1.0, max(LEAST_SPREAD, statistics.variance(values) * (n - 1) / n / most))
    low, high = wilson_interval(min(mean, 1.0) * n / spread, n / spread)
    return Share(value=mean, low=low, high=high)


def _suggest(sizes: Sequence[SizeForecast]) -> int | None:
    """Return the smallest group size that wastes few more tokens than the best does."""
    best = max((_efficiency(size) for size in sizes), default=0.0)
    if best <= 0.0:
        return None
    return next(size.group_size for size in sizes if _efficiency(size) >= NEARLY_BEST * best)


def _efficiency(size: SizeForecast) -> float:
    return size.effective.value if size.useful_share is None else size.useful_share


def _dropped(
    results: Sequence[ExampleResult],
    scores: Sequence[Sequence[float]],
    kinds: Sequence[Kind],
    full_score: float,
) -> list[DroppedExample]:
    found: list[DroppedExample] = []
    for result, samples, kind in zip(results, scores, kinds, strict=True):
        if kind not in ("too_easy", "too_hard"):
            continue
        solved = sum(score >= full_score - TOLERANCE for score in samples)
        low, high = wilson_interval(solved, len(samples))
        found.append(
            DroppedExample(
                example_id=result.example_id,
                kind="always_solved" if kind == "too_easy" else "never_solved",
                samples=len(samples),
                chance_low=low,
                chance_high=high,
            )
        )
    return sorted(found, key=lambda example: example.chance_high - example.chance_low)


def _dropped_tokens(results: Sequence[ExampleResult], dropped: Set[str]) -> float | None:
    lengths = {result.example_id: _lengths(result) for result in results}
    spent = {example_id: sum(tokens) for example_id, tokens in lengths.items() if tokens is not None}
    if len(spent) < len(lengths) or not sum(spent.values()):
        return None
    return sum(spent[example_id] for example_id in dropped) / sum(spent.values())
