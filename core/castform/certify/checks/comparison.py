"""What differs between two rollouts that were given the same replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from castform.rollouts import Rollout

TOLERANCE = 1e-6
SHOWN_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One thing that came out in two ways."""

    what: str
    """`reward correct`, `termination reason`, `first observation`, `observation 2`."""
    first: str
    second: str

    def describe(self) -> str:
        return f"{self.what} is {self.first} in one and {self.second} in the other"


def find_difference(first: Rollout, second: Rollout, *, rewards: bool = True) -> Difference | None:
    """Return the first thing in which two rollouts differ: what the model was shown, then how it was scored."""
    return find_observation_difference(first, second) or (
        find_score_difference(first, second) if rewards else None
    )


def find_score_difference(first: Rollout, second: Rollout) -> Difference | None:
    """Return a reward or the end of the rollout, where they differ."""
    if first.termination_reason != second.termination_reason:
        return Difference(
            what="termination reason", first=first.termination_reason, second=second.termination_reason
        )
    for name in sorted({*first.rewards, *second.rewards}):
        before, after = first.rewards.get(name), second.rewards.get(name)
        if before is None or after is None or abs(before - after) > TOLERANCE:
            return Difference(what=f"reward {name}", first=_number(before), second=_number(after))
    return None


def find_observation_difference(first: Rollout, second: Rollout) -> Difference | None:
    """Return the first request to the model that differs; ids of the rollout itself do not count."""
    before, after = list_observations(first), list_observations(second)
    for place, (one, other) in enumerate(zip(before, after, strict=False)):
        if one != other:
            return Difference(what=name_observation(place), **_around(one, other))
    if len(before) != len(after):
        return Difference(what="number of model calls", first=str(len(before)), second=str(len(after)))
    return None


def list_observations(rollout: Rollout) -> Sequence[str]:
    """Return what the model was sent, one JSON text a call, without the rollout's own id in it."""
    return [
        json.dumps([list(call.messages), list(call.tools)], default=str, ensure_ascii=False).replace(
            rollout.rollout_id, "*"
        )
        for call in rollout.calls
    ]


def name_observation(place: int) -> str:
    return "the first observation" if place == 0 else f"observation {place + 1}"


def _number(value: float | None) -> str:
    return "missing" if value is None else f"{value:g}"


def _around(one: str, other: str) -> dict[str, str]:
    """Return both texts, cut to where they begin to differ."""
    place = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    start = max(0, place - SHOWN_CHARACTERS // 3)
    return {
        "first": f"'{one[start : start + SHOWN_CHARACTERS]}'",
        "second": f"'{other[start : start + SHOWN_CHARACTERS]}'",
    }
