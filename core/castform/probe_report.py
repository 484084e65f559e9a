"""From what was played to what each probe earned."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from benchmax.envs.termination import KNOWN_REASONS, SCORABLE
from castform.probes import Crash, Probe, ProbeContext, ProbeOutcome, ProbeReport
from castform.rollouts import ENVIRONMENT_ERROR, ROLLOUT_TIMEOUT, Rollout, RolloutGroup

GOLD = "gold"
TOLERANCE = 1e-9
UNREACHABLE = frozenset({"judge_error", "sandbox_error", "harness_error", "model_error"})
"""Failures of something that the environment needs and this machine may not have."""
DEFECTS = frozenset({ENVIRONMENT_ERROR, ROLLOUT_TIMEOUT, *KNOWN_REASONS}) - SCORABLE - UNREACHABLE
"""Failures that are the environment's: the scripted answers work, and no model is there to blame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One group: what each probe's sibling came to, on one example."""

    context: ProbeContext
    played: Mapping[str, Rollout]

    @property
    def example_id(self) -> str:
        return self.context.example_id


@dataclass(frozen=True, slots=True)
class _Play:
    rollout: Rollout
    context: ProbeContext
    full: float
    """What counts as full pay: the right answer's score beside it."""


def make_report(
    rows: Sequence[Row],
    probes: Sequence[Probe],
    *,
    rendering: str,
    pass_at: float,
    skipped: Sequence[str] = (),
    groups: Sequence[RolloutGroup] = (),
    probe_of: Mapping[str, str] | None = None,
) -> ProbeReport:
    """Sum up what was played."""
    wrong = {p.name for p in probes if p.verdict == "wrong" and not p.needs_gold}
    costly = {p.name for p in probes if p.max_examples is not None}
    unpaid = _unpaid_gold([row for row in rows if not costly & row.played.keys()], wrong)
    plays: dict[str, list[_Play]] = {}
    for row in rows:
        gold = row.played.get(GOLD)
        paid = None if gold is None or row.example_id in unpaid else gold.score
        full = pass_at if paid is None else paid
        for name, rollout in row.played.items():
            plays.setdefault(name, []).append(_Play(rollout, row.context, full))
    scores = [
        score for play in _first_a_example(plays.get(GOLD, ())) if (score := play.rollout.score) is not None
    ]
    gold_mean = statistics.fmean(scores) if scores else None
    right = Probe(
        name=GOLD,
        what="the right answer",
        make=lambda context: None,
        verdict="right",
        needs_gold=True,
        allowed_share=1.0,
    )
    outcomes = {
        probe.name: _outcome(probe, plays[probe.name], gold_mean) for probe in probes if probe.name in plays
    }
    return ProbeReport(
        gold=_outcome(right, _first_a_example(plays[GOLD]), gold_mean) if GOLD in plays else None,
        rendering=rendering,
        unpaid_gold=tuple(sorted(unpaid)),
        outcomes=tuple(outcomes.values()),
        crashes=_failures(rows, DEFECTS),
        unreachable=_failures(rows, UNREACHABLE),
        full_score=statistics.median_low(scores) if scores else None,
        majority=next((row.context.majority for row in rows), None),
        inapplicable=tuple(probe.name for probe in probes if probe.name not in outcomes),
        skipped=tuple(skipped),
        groups=tuple(groups),
        probe_of=dict(probe_of or {}),
    )


def _unpaid_gold(rows: Sequence[Row], wrong: Collection[str]) -> set[str]:
    """Return where the right answer earns no more than any wrong one, or is not scored for no outside cause."""
    unpaid = set()
    for row in rows:
        gold = row.played.get(GOLD)
        if gold is None or gold.termination_reason in UNREACHABLE:
            continue
        scores = [r.score for name, r in row.played.items() if name in wrong and r.score is not None]
        if gold.score is None or gold.score <= min(scores, default=0.0) + TOLERANCE:
            unpaid.add(row.example_id)
    return unpaid


def _first_a_example(plays: Sequence[_Play]) -> list[_Play]:
    """Leave out the right answer's further rollouts, beside costly probes."""
    return list({play.context.example_id: play for play in reversed(plays)}.values())[::-1]


def _failures(rows: Sequence[Row], reasons: frozenset[str]) -> tuple[Crash, ...]:
    return tuple(
        Crash(
            probe=name,
            example_id=row.example_id,
            reason=rollout.termination_reason,
            error=rollout.error or rollout.termination_reason,
        )
        for row in rows
        for name, rollout in row.played.items()
        if rollout.termination_reason in reasons
    )


def _outcome(probe: Probe, plays: Sequence[_Play], gold_mean: float | None) -> ProbeOutcome:
    scored = [(play, play.rollout.score) for play in plays if play.rollout.score is not None]
    counted = [(play, score) for play, score in scored if probe.counts(play.context)]
    mean = statistics.fmean(score for _, score in scored) if scored else None
    names = sorted({name for play, _ in scored for name in play.rollout.rewards})
    paid = [play.context.example_id for play, score in counted if score >= play.full - TOLERANCE]
    return ProbeOutcome(
        name=probe.name,
        what=probe.what,
        verdict=probe.verdict,
        needs_gold=probe.needs_gold,
        examples=len(plays),
        scored=len(scored),
        counted=len(counted),
        paid_in_full=tuple(paid),
        unpaid=tuple(
            play.context.example_id for play, _ in counted if play.context.example_id not in set(paid)
        ),
        mean_score=mean,
        share_of_gold=None if mean is None or not gold_mean or gold_mean <= 0 else mean / gold_mean,
        components={
            name: statistics.fmean(p.rollout.rewards[name] for p, _ in scored if name in p.rollout.rewards)
            for name in names
        },
        failures=dict(
            Counter(p.rollout.termination_reason for p in plays if p.rollout.score is None).most_common()
        ),
        allowed_share=probe.allowed_share,
    )
