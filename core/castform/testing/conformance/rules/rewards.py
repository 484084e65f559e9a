"""Rules of rewards: numbers with names, the same for the same transcript, full for what is right, low for what is not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from castform.certify.transcripts import choose_replays
from castform.probe_findings import judge_probes
from castform.probe_report import GOLD
from castform.replay import replay_groups
from castform.rollouts import MOST_SCORE
from castform.testing.conformance.examined import Examined
from castform.testing.conformance.rule import Breach, NotCheckedError
from castform.validation import Finding

LEAST_GOLD = 0.75
"""Share of what others' right answers earn that each earns at least: a graded reward may differ a little."""


def check_finite(examined: Examined) -> list[Breach]:
    """Every scored rollout has named components that are finite numbers."""
    examined.need_context()
    scored = 0
    for group in examined.probes.groups:
        for rollout in group.rollouts:
            bad = [
                f"{name!r} is {value!r}"
                for name, value in rollout.rewards.items()
                if not (isinstance(name, str) and name.strip())
                or not math.isfinite(value)
                or abs(value) > MOST_SCORE
            ]
            refused = rollout.termination_reason == "reward_error" and rollout.score is None
            if bad or (refused and "finite" in (rollout.error or "")):
                return [
                    Breach(
                        message=f"a reward is not a finite number with a name: {', '.join(bad) or rollout.error}",
                        way_out="return {name: float}; end what cannot be scored with RolloutFailure",
                        example_id=group.example_id,
                    )
                ]
            scored += rollout.score is not None
    if not scored:
        raise NotCheckedError(_why_nothing_scored(examined))
    return []


def check_determinism(examined: Examined) -> list[Breach]:
    """The same transcript, scored twice, earns the same."""
    examined.need_context()
    by_id = {example.id: example for example in examined.examples}
    groups = choose_replays(examined.environment, examined.probes.groups)
    report = examined.run(
        replay_groups(
            examined.environment,
            [(by_id[group.example_id], group) for group in groups],
            split=examined.options.split,
            weights=examined.options.weights,
            timeout_seconds=examined.options.timeout_seconds,
        )
    )
    if report.differences:
        first = report.differences[0]
        return [
            Breach(
                message=f"scored again, {len({d.rollout_id for d in report.differences})} of {report.rollouts} "
                f"transcripts differ: {first.what} was {first.first}, then {first.second}",
                way_out="score from the transcript and the example alone: no clock, no chance, no count of calls",
                example_id=first.example_id,
            )
        ]
    if not report.rollouts:
        raise NotCheckedError("no rollout could be played again")
    return []


def check_gold(examined: Examined) -> list[Breach]:
    """The right answer is paid, and on every example in full."""
    examined.need_examples()
    try:
        report = examined.probes
    except RuntimeError as error:
        return [Breach(message=str(error), way_out="gold(example) returns text, a number, messages, or None")]
    if report.gold is None:
        raise NotCheckedError(
            "the environment gives no right answers; an `answer` or `ground_truth` field, or a `gold` method, would do"
        )
    found = [f for f in judge_probes(report) if f.code == "gold_not_paid"]
    if found:
        return [
            Breach(
                message=found[0].message,
                way_out="let gold() give what compute_reward pays; `castform env certify` shows what each answer earns",
                example_id=found[0].example_id,
            )
        ]
    if not report.gold.scored or report.full_score is None:
        raise NotCheckedError(_why_nothing_scored(examined))
    low = [
        (group.example_id, rollout.score)
        for group in report.groups
        for rollout in group.rollouts
        if report.probe_of[rollout.rollout_id] == GOLD
        if rollout.score is not None and rollout.score < report.full_score * LEAST_GOLD
    ]
    if low:
        example_id, score = low[0]
        return [
            Breach(
                message=f"the right answer earns {score:g} on {len(dict(low))} of {len(examined.examples)} examples, "
                f"where others' right answers earn {report.full_score:g}",
                way_out="let gold() give the best answer there is, or pay every right answer the same",
                example_id=example_id,
            )
        ]
    return []


def check_probes(examined: Examined) -> list[Breach]:
    """No wrong answer that takes no knowledge of the right one is paid like it."""
    examined.need_context()
    report = examined.probes
    if not any(outcome.scored for outcome in report.outcomes):
        raise NotCheckedError(_why_nothing_scored(examined))
    found = [f for f in judge_probes(report) if f.level == "fault" and f.code.startswith("reward_pays_")]
    if not found:
        return []
    others = ", ".join(f.check for f in found[1:])
    return [
        Breach(
            message=f"{found[0].message}, probe {found[0].check}" + (f"; so do {others}" if others else ""),
            way_out="compare the answer itself, whole; an empty one, an echo or a list of guesses earns nothing",
            example_id=found[0].example_id,
        )
    ]


def check_scoring(examined: Examined) -> list[Breach]:
    """Whatever the model says is scored, or fails for a reason outside of the environment."""
    examined.need_context()
    found = [f for f in judge_probes(examined.probes) if f.code in ("reward_raises", "reward_hangs")]
    return [
        Breach(
            message=f.message,
            way_out="a model may say anything: read it without trusting it, bound what it costs, and pay nothing",
            example_id=f.example_id,
        )
        for f in found
    ]


def _why_nothing_scored(examined: Examined) -> str:
    unreachable: Sequence[Finding] = [f for f in judge_probes(examined.probes) if f.level == "unchecked"]
    return f"no answer was scored: {unreachable[0].message}" if unreachable else "no answer was scored"
