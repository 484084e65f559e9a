"""Which texts of a group say the same thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """One cluster for every text."""

    cluster_ids: tuple[str, ...]
    """The cluster of text 0, 1, ...: a judge's names, else numbers in order of their first text."""
    divisors: tuple[float, ...]
    """How many texts share the cluster of text 0, 1, ..., itself included: 1.0 for a text of its own kind."""
    labels: tuple[str, ...] = ()
    """What a judge says of text 0, 1, ...'s cluster; empty when none was asked."""
    raw_response: str | None = None
    """The judge's reply, if one was asked."""

    @property
    def n_clusters(self) -> int:
        """How many different kinds of text there are."""
        return len(set(self.cluster_ids))


def number_clusters(keys: Sequence[Hashable]) -> ClusterResult:
    """Return the clusters of texts that are told apart by `keys`, numbered from "0"."""
    names = {key: str(number) for number, key in enumerate(dict.fromkeys(keys))}
    return ClusterResult(tuple(names[key] for key in keys), count_shares(keys))


def count_shares(keys: Sequence[Hashable]) -> tuple[float, ...]:
    """Return how often the key of text 0, 1, ... occurs."""
    sizes = Counter(keys)
    return tuple(float(sizes[key]) for key in keys)
