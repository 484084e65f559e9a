"""The loss on held-out rows, and whether it fell: paired by row, in one of three words.

Pure Python: the command line and the dashboard read stored losses without torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from castform.intervals import RESAMPLES, bootstrap_interval, sign_flip_p
from castform.seeds import derive_seed
from castform.verdict import SIGNIFICANCE, Comparison, Verdict, Word

LOSS = "loss"
MAX_EVAL_ROWS = 2048
"""Held-out rows that are measured at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowLoss:
    """One held-out row."""

    nll: float
    """Sum of weight * -log p over its trained tokens, in nats."""
    weight: float
    """Sum of the weights: the number of its trained tokens where each counts once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutLoss:
    """One measurement of one model on fixed rows."""

    rows: Sequence[RowLoss]
    seconds: float

    @property
    def loss(self) -> float:
        """Mean of -log p over the trained tokens of all rows together, in nats."""
        return math.fsum(row.nll for row in self.rows) / self.weight

    @property
    def weight(self) -> float:
        return math.fsum(row.weight for row in self.rows)

    def as_dict(self, *, with_rows: bool = True) -> dict[str, Any]:
        """Return JSON values."""
        data = {
            "loss": self.loss,
            "weight": self.weight,
            "row_count": len(self.rows),
            "seconds": self.seconds,
        }
        return {**data, "rows": [asdict(row) for row in self.rows]} if with_rows else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeldOutLoss:
        """Read back what `as_dict` gave."""
        return cls(rows=tuple(RowLoss(**row) for row in data["rows"]), seconds=data["seconds"])


def compare_losses(
    before: HeldOutLoss, after: HeldOutLoss, *, seed: int = 0, resamples: int = RESAMPLES
) -> Verdict:
    """Say whether the loss fell ("better"), rose ("worse"), or shows no difference.

    Rows are what varies, so they are resampled, each with all its tokens: the interval is that of
    a ratio of sums, by its linearisation at the estimate. A word other than "no difference shown"
    also needs p <= 0.05 in a sign-flip test of the rows' differences. ValueError for other rows.
    """
    if [row.weight for row in before.rows] != [row.weight for row in after.rows]:
        raise ValueError("the two losses were measured on different rows")
    changes = [b.nll - a.nll for a, b in zip(before.rows, after.rows, strict=True)]
    total = before.weight
    difference = math.fsum(changes) / total
    mean_weight = total / len(changes)
    linear = [
        difference + (change - difference * row.weight) / mean_weight
        for change, row in zip(changes, before.rows, strict=True)
    ]
    seed_of_draws = derive_seed(seed, "verdict")
    low, high = bootstrap_interval(linear, seed=seed_of_draws, resamples=resamples)
    p = sign_flip_p(changes, seed=seed_of_draws, resamples=resamples)
    word: Word = "no difference shown"
    if p <= SIGNIFICANCE and high < 0:
        word = "better"
    elif p <= SIGNIFICANCE and low > 0:
        word = "worse"
    found = Comparison(
        name=LOSS,
        word=word,
        before=before.loss,
        after=after.loss,
        difference=difference,
        low=low,
        high=high,
        p=p,
        examples=len(changes),
    )
    return Verdict(word=word, judged_by=None, score=found, components=(), left_out=0, seed=seed)
