"""Read a judge's ranking. Nothing is repaired: a ranking with a hole in it is no ranking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmax.rewards.ranking.positions import Ranking


class Verdict(NamedTuple):
    """What a judge said about one presentation."""

    ranking: Ranking
    reasoning: str


# Any: a judge's reply is whatever JSON object it wrote.
def make_ranking_reader(count: int) -> Callable[[dict[str, Any]], Verdict]:
    """Return a reader of replies that rank the labels 0 to count-1. It raises ValueError on others.

    The form is `{"ranking": [[best, equally good], [worse]], "reasoning": "..."}`: tiers
    are non-empty lists of integers, every label occurs once, and the reasoning may be
    null or left out.
    """

    def read(reply: dict[str, Any]) -> Verdict:
        ranking = _read_tiers(reply.get("ranking"))
        labels = sorted(label for tier in ranking for label in tier)
        if labels != list(range(count)):
            raise ValueError(f"'ranking' must have each of the numbers 0 to {count - 1} once, not {labels}")
        reasoning = reply.get("reasoning")
        if not isinstance(reasoning, str | None):
            raise ValueError(f"'reasoning' must be a string, not {reasoning!r}")
        return Verdict(ranking, reasoning or "")

    return read


def _read_tiers(tiers: object) -> Ranking:
    if not isinstance(tiers, list):
        raise ValueError(f"'ranking' must be a list of tiers, not {tiers!r}")
    for tier in tiers:
        if not isinstance(tier, list) or not tier:
            raise ValueError(f"a tier of 'ranking' must be a non-empty list, not {tier!r}")
        for label in tier:
            if isinstance(label, bool) or not isinstance(label, int):
                raise ValueError(f"a tier of 'ranking' must hold integers, not {label!r}")
    return tuple(tuple(tier) for tier in tiers)
