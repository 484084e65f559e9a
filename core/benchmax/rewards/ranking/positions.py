"""Where an entry stands in a ranking with ties, and the mean of several rankings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TypeAlias

Ranking: TypeAlias = tuple[tuple[int, ...], ...]
"""Tiers of entry indices, best first; the entries of a tier are equally good."""


def mid_rank_positions(ranking: Ranking) -> list[float]:
    """Return the position of entry 0, 1, ...: 0.0 is best, the number of entries less one worst.

    Entries that share a tier share the mean of the places that the tier takes up (the
    mid-rank of rank statistics), so positions add up to the same whatever the ties.
    """
    positions: dict[int, float] = {}
    for tier in ranking:
        position = len(positions) + (len(tier) - 1) / 2
        positions |= dict.fromkeys(tier, position)
    return [positions[index] for index in range(len(positions))]


def average_rankings(rankings: Sequence[Ranking]) -> tuple[Ranking, list[float]]:
    """Return the ranking by mean position, and the mean positions, of rankings of the same entries.

    Entries with the same mean position tie. A single ranking comes back as it is.
    """
    each = [mid_rank_positions(ranking) for ranking in rankings]
    means = [sum(positions) / len(each) for positions in zip(*each, strict=True)]
    given_order = [index for tier in rankings[0] for index in tier]
    best_first = sorted(given_order, key=means.__getitem__)
    tiers = groupby(best_first, key=means.__getitem__)
    return tuple(tuple(tier) for _, tier in tiers), means
