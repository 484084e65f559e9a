"""Rules of rollouts: siblings start alike, nobody sees anybody else, and chance comes from a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from castform.certify.checks.global_randomness import check_global_randomness
from castform.testing.conformance.examined import Examined
from castform.testing.conformance.rule import Breach, NotCheckedError
from castform.validation import Finding

WAYS_OUT: Mapping[str, str] = {
    "siblings_start_differently": "make the first observation from the example alone; a seed belongs in its payload",
    "payload_mutated": "work on a copy (copy.deepcopy) of what the payload holds",
    "rollouts_interfere": "keep what a rollout needs in rollout_context, under its rollout_id, not on the environment",
    "state_carried_over": "keep what a rollout needs in rollout_context, under its rollout_id, and forget it there",
    "global_randomness": "draw from random.Random(seed) or numpy.random.default_rng(seed) with the example's seed",
    "global_draws": "draw from random.Random(seed) or numpy.random.default_rng(seed) of your own",
}


def check_first_observation(examined: Examined) -> list[Breach]:
    """All members of a group send the same first request."""
    found = examined.isolation
    return _breaches(
        found, ["siblings_start_differently"], unchecked=("no_examples", "no_second_environment")
    )


def check_independence(examined: Examined) -> list[Breach]:
    """A rollout comes out the same whatever runs beside it and ran before it; payloads stay as they are."""
    codes = ["payload_mutated", "rollouts_interfere", "state_carried_over"]
    unchecked = ("no_examples", "no_second_environment", "not_repeatable")
    return _breaches(examined.isolation, codes, unchecked=unchecked)


def check_randomness(examined: Examined) -> list[Breach]:
    """Neither rollouts nor the dataset draw from the generators that the whole process shares."""
    found = examined.run(check_global_randomness(examined.need_context()))
    return _breaches(
        found, ["global_randomness", "global_draws"], unchecked=("no_examples", "not_repeatable")
    )


def _breaches(found: Sequence[Finding], codes: Sequence[str], *, unchecked: Sequence[str]) -> list[Breach]:
    breaches = [
        Breach(message=f.message, way_out=WAYS_OUT[f.code], example_id=f.example_id)
        for f in found
        if f.code in codes
    ]
    open_points = [f.message for f in found if f.code in unchecked]
    if open_points and not breaches:
        raise NotCheckedError(open_points[0])
    return breaches
