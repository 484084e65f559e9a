"""Reference answers of known worth, which turn places in a ranking into scores."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


@dataclass(frozen=True)
class RankingAnchor:
    """An answer whose score is known; `label` is the author's own name for it."""

    response: str
    score: float
    """In [0, 1]."""
    label: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.response, str) or not self.response.strip():
            raise ValueError("an anchor's response must be a non-empty string")
        if isinstance(self.score, bool) or not isinstance(self.score, (int, float)):
            raise TypeError(f"an anchor's score must be a number, not {self.score!r}")
        if math.isnan(self.score) or not 0 <= self.score <= 1:
            raise ValueError(f"an anchor's score must be in [0, 1], not {self.score}")


class Seam(NamedTuple):
    """The place in a ranking at which an answer earns exactly `score`."""

    position: float
    score: float


def check_anchor_order(anchors: Sequence[RankingAnchor]) -> None:
    """ValueError unless the anchors go from worst to best; equal scores may follow each other."""
    for worse, better in pairwise(anchors):
        if better.score < worse.score:
            raise ValueError(
                f"anchors must be given from worst to best, but {better.score} follows {worse.score}"
            )


def pool_seams(seams: Iterable[Seam]) -> list[Seam]:
    """Return the seams by position, best first, with scores that never rise on the way down.

    Where the judge put a worse anchor above a better one the two become one seam, the
    higher place with the higher score, so that a better place never earns less. (As in
    the pooling of adjacent violators.)
    """
    pooled: list[Seam] = []
    for seam in sorted(seams):  # of a tie, the highest score last: it takes the place
        position = seam.position
        while pooled and pooled[-1].score < seam.score:
            position = pooled.pop().position
        pooled.append(Seam(position, seam.score))
    return pooled


def score_between_seams(position: float, seams: Sequence[Seam], *, last: float) -> float:
    """Return the score in [0, 1] at `position`, where `last` is the worst position there is.

    Linear from 1.0 at position 0 to the best seam, from seam to seam, and from the
    worst seam to 0.0 at `last`. `seams` are pooled and not empty. Shares are taken
    before products, so that rounding carries no score out of [0, 1].
    """
    best, worst = seams[0], seams[-1]
    if position < best.position:
        return best.score + (1 - best.score) * ((best.position - position) / best.position)
    if position > worst.position:
        return worst.score * ((last - position) / (last - worst.position))
    below = bisect_right(seams, position, key=lambda seam: seam.position)
    upper = seams[below - 1]
    if upper.position == position:
        return upper.score
    lower = seams[below]
    share = (position - upper.position) / (lower.position - upper.position)
    return upper.score + (lower.score - upper.score) * share
