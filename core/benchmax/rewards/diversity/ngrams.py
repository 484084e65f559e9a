"""Clusters of texts that share most of their character n-grams. No judge, no model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from benchmax.rewards.diversity.config import NgramDiversityConfig
from benchmax.rewards.diversity.result import ClusterResult, number_clusters


def cluster_by_ngrams(texts: Sequence[str], config: NgramDiversityConfig) -> ClusterResult:
    """Return the connected components of the texts under "similar enough" (single linkage).

    A text and a near copy of its near copy are thus in one cluster even when the two
    share little. Quadratic in the number of texts.
    """
    grams = [character_ngrams(text, config.n) for text in texts]
    parents = list(range(len(texts)))

    def root(index: int) -> int:
        while parents[index] != index:
            index = parents[index]
        return index

    for one, other in combinations(range(len(texts)), 2):
        if jaccard(grams[one], grams[other]) >= config.similarity_threshold:
            parents[root(other)] = root(one)
    return number_clusters([root(index) for index in range(len(texts))])


def character_ngrams(text: str, n: int) -> frozenset[str]:
    """Return the n-grams of a text, in any case and with any white space as one blank.

    A text shorter than n is one gram by itself; an empty one has none.
    """
    plain = " ".join(text.casefold().split())
    starts = range(max(len(plain) - n + 1, 1))
    return frozenset(plain[start : start + n] for start in starts) - {""}


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Return |one and other| / |one or other|, from 0.0 to 1.0; two empty sets are the same, 1.0."""
    together = one | other
    return len(one & other) / len(together) if together else 1.0
