"""Turn positions in a ranking into scores in [0, 1]. Pure arithmetic: no judge."""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.rewards.ranking.anchors import RankingAnchor, Seam, pool_seams, score_between_seams

TIE_WITH_GROUND_TRUTH = 0.5


def score_among_siblings(positions: Sequence[float]) -> list[float]:
    """Return a score per answer, from 1.0 for the best place to 0.0 for the worst; two answers or more."""
    last = len(positions) - 1
    return [1 - position / last for position in positions]


def score_against_ground_truth(
    positions: Sequence[float], *, below_ground_truth_ceiling: float
) -> list[float]:
    """Return a score per answer, where the last position is the ground truth's.

    A tie with it earns 0.5. Better answers go up to 1.0 at the top; worse ones start
    at the ceiling, not at 0.5, and go down to 0.0 at the bottom.
    """
    *answers, truth = positions
    last = len(answers)

    def score(position: float) -> float:
        if position < truth:
            return TIE_WITH_GROUND_TRUTH + (1 - TIE_WITH_GROUND_TRUTH) * (truth - position) / truth
        if position > truth:
            return below_ground_truth_ceiling * (1 - (position - truth) / (last - truth))
        return TIE_WITH_GROUND_TRUTH

    return [score(position) for position in answers]


def score_against_anchors(positions: Sequence[float], anchors: Sequence[RankingAnchor]) -> list[float]:
    """Return a score per answer, where the last positions are the anchors', in their order (worst first)."""
    count = len(positions) - len(anchors)
    seams = pool_seams(
        Seam(position, anchor.score) for position, anchor in zip(positions[count:], anchors, strict=True)
    )
    return [score_between_seams(position, seams, last=len(positions) - 1) for position in positions[:count]]
