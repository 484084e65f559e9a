"""Which texts of a group say the same thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterResult:
    """One cluster for every text; clusters are numbered in order of their first text."""

    cluster_ids: tuple[int, ...]
    """The cluster of text 0, 1, ..."""
    divisors: tuple[int, ...]
    """How many texts share the cluster of text 0, 1, ..., itself included: 1 for a text of its own kind."""
    labels: tuple[str, ...] = ()
    """What each cluster's texts have in common, by cluster id; empty when nobody named them."""
    raw_response: str = ""
    """The judge's reply, if one was asked."""

    @property
    def n_clusters(self) -> int:
        """How many different kinds of text there are."""
        return len(set(self.cluster_ids))


def number_clusters(keys: Sequence[Hashable]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return cluster ids and divisors of texts whose clusters are told apart by `keys`."""
    ids = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    sizes = Counter(keys)
    return tuple(ids[key] for key in keys), tuple(sizes[key] for key in keys)
