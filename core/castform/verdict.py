"""Say whether a model got better: paired on the same examples, in one of three words.

"better" and "worse" need both a 95 % bootstrap interval of the paired difference that leaves
out 0 and a sign-flip test with p <= 0.05. The second keeps the promise of at most 5 % false
claims where few examples changed, where a bootstrap alone is too bold.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from castform.eval_result import EvalResult, ExampleResult
from castform.intervals import RESAMPLES, bootstrap_interval, sign_flip_p
from castform.seeds import derive_seed

Word = Literal["better", "no difference shown", "worse"]
SCORE = "score"
SIGNIFICANCE = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The score, or one reward component, before and after on the same examples."""

    name: str
    word: Word
    before: float
    after: float
    difference: float
    """Mean of after - before over examples."""
    low: float
    high: float
    """95 % interval of the difference."""
    p: float
    """Two-sided sign-flip test."""
    examples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a before and an after show together."""

    word: Word
    judged_by: str | None
    """The component that was asked for; None is the score."""
    score: Comparison | None
    """None when no example was scored on both sides."""
    components: Sequence[Comparison]
    """Every reward component that both sides have, by name."""
    left_out: int
    """Examples that one side does not have or did not score."""
    seed: int

    @property
    def judged(self) -> Comparison | None:
        """The comparison behind the word."""
        if self.judged_by is None:
            return self.score
        return next((found for found in self.components if found.name == self.judged_by), None)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, the sentence included."""
        return {**asdict(self), "sentence": self.describe()}

    def describe(self) -> str:
        """Return the verdict as one sentence."""
        found = self.judged
        left_out = f", {self.left_out} left out" if self.left_out else ""
        if found is None:
            return f"{self.word}: no example has {self.judged_by or SCORE} on both sides{left_out}"
        return (
            f"{self.word}: {found.name} {found.before:.3f} -> {found.after:.3f}, difference "
            f"{found.difference:+.3f} (95 % interval {found.low:+.3f} to {found.high:+.3f}, "
            f"{found.examples} examples{left_out})"
        )


def compare(
    before: EvalResult,
    after: EvalResult,
    component: str | None = None,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Verdict:
    """Compare two evaluations, paired by example id; `component` is judged instead of the score.

    Every example counts once, by the mean of its scored samples. Examples without a score on
    either side are left out and counted. A component is compared on the examples where both
    sides have it. ValueError for a component that neither side has.
    """
    names = sorted({*before.components, *after.components})
    if component is not None and component not in names:
        raise ValueError(f"no reward component {component!r}; there are {', '.join(names) or 'none'}")
    earlier = {example.example_id: example for example in before.examples}
    later = {example.example_id: example for example in after.examples}
    pairs = [(earlier[key], later[key]) for key in earlier if key in later]
    pairs = [(a, b) for a, b in pairs if a.score is not None and b.score is not None]
    seed_of_draws = derive_seed(seed, "verdict")
    verdict = Verdict(
        word="no difference shown",
        judged_by=component,
        score=_compare(SCORE, lambda example: example.score, pairs, seed_of_draws, resamples),
        components=tuple(
            found
            for name in names
            if (found := _compare(name, _component(name), pairs, seed_of_draws, resamples))
        ),
        left_out=len({*earlier, *later}) - len(pairs),
        seed=seed,
    )
    return replace(verdict, word=verdict.judged.word) if verdict.judged else verdict


_Value = Callable[[ExampleResult], float | None]


def _component(name: str) -> _Value:
    return lambda example: example.component(name)


def _compare(
    name: str,
    value: _Value,
    pairs: Sequence[tuple[ExampleResult, ExampleResult]],
    seed: int,
    resamples: int,
) -> Comparison | None:
    values = [(a, b) for a, b in ((value(x), value(y)) for x, y in pairs) if a is not None and b is not None]
    return compare_values(name, values, seed=seed, resamples=resamples) if values else None


def compare_values(
    name: str, values: Sequence[tuple[float, float]], *, seed: int, resamples: int = RESAMPLES
) -> Comparison:
    """Compare (before, after) pairs, at least one, of something of which more is better.

    `seed` is that of the draws themselves, `derive_seed(seed of the run, "verdict")`.
    """
    differences = [b - a for a, b in values]
    low, high = bootstrap_interval(differences, seed=seed, resamples=resamples)
    p = sign_flip_p(differences, seed=seed, resamples=resamples)
    word: Word = "no difference shown"
    if p <= SIGNIFICANCE and low > 0:
        word = "better"
    elif p <= SIGNIFICANCE and high < 0:
        word = "worse"
    return Comparison(
        name=name,
        word=word,
        before=statistics.fmean(a for a, _ in values),
        after=statistics.fmean(b for _, b in values),
        difference=statistics.fmean(differences),
        low=low,
        high=high,
        p=p,
        examples=len(values),
    )
