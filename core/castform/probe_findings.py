"""Say in words what is wrong with a reward that pays probes, or does not pay the right answer.

A fault is a wrong answer that needs no knowledge of the right one and is paid in full on more
examples than coincidence explains (`Probe.allowed_share`: 5 %, and 25 % for another example's
answer, which may be right here too). Wrong answers that take knowing the right one are a
warning: no policy finds them by accident, but the reward does not read what is said. So is a
right answer that is not paid because of how it is written. Partial credit is a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from castform.probe_report import GOLD, TOLERANCE, UNREACHABLE
from castform.probes import Crash, ProbeOutcome, ProbeReport
from castform.rollouts import ROLLOUT_TIMEOUT
from castform.validation import Finding, Level

FALSE_FAIL_SHARE = 0.05
"""Of the examples on which a right answer, written otherwise, may go unpaid."""
MUCH_LAZY_PAY = 0.5
_OUTSIDE = {
    "judge_error": "the judge was not reachable",
    "sandbox_error": "the sandbox was not reachable",
    "harness_error": "the agent program, or the environment's own turns, failed",
}


def judge_probes(report: ProbeReport) -> list[Finding]:
    """Return what the probes say, worst first within each kind."""
    findings: list[Finding] = []
    for outcome in (_without_right_lists(report, outcome) for outcome in report.outcomes):
        finding = _judge_wrong(outcome) if outcome.verdict == "wrong" else _judge_right(outcome)
        findings += [finding] if finding else []
    findings += _judge_partial_credit(report)
    findings += _judge_gold(report)
    findings += _judge_crashes(report.crashes)
    findings += _judge_unreachable(report)
    if report.skipped:
        findings.append(
            Finding(
                level="unchecked",
                code="probes_skipped",
                message=f"the time was up before the probes were played on {len(report.skipped)} examples",
            )
        )
    if report.inapplicable and report.gold is not None:
        findings.append(
            Finding(
                level="note",
                code="probes_inapplicable",
                message=f"not played, as they do not fit these examples: {', '.join(report.inapplicable)}",
            )
        )
    return findings


def _without_right_lists(report: ProbeReport, outcome: ProbeOutcome) -> ProbeOutcome:
    """Leave out of a list of candidates the examples on which one of them is right, though it is another one's.

    A way out of one maze may be the way out of another; a reward that pays it in a list pays no list.
    """
    other = report.outcome("other_answer")
    if other is None or not outcome.name.startswith("shotgun_") or other.scores:
        return outcome
    paid = tuple(example for example in outcome.paid_in_full if example not in other.paid_in_full)
    return replace(outcome, paid_in_full=paid, counted=len(paid) + len(outcome.unpaid))


def _judge_wrong(outcome: ProbeOutcome) -> Finding | None:
    paid, total = outcome.paid_in_full, outcome.counted
    if outcome.scores:
        level: Level = "warning" if outcome.needs_gold else "fault"
        return Finding(
            level=level,
            code=f"reward_pays_{outcome.name}",
            message=f"{outcome.what} earns as much as the right answer on {len(paid)} of {total} examples "
            f"({_components(outcome.components)}; example {paid[0]})",
            check=outcome.name,
            example_id=paid[0],
        )
    if paid:
        return Finding(
            level="note",
            code=f"{outcome.name}_sometimes_right",
            message=f"{outcome.what} is paid in full on {len(paid)} of {total} examples, "
            "which may be coincidence",
            check=outcome.name,
            example_id=paid[0],
        )
    return None


def _judge_partial_credit(report: ProbeReport) -> list[Finding]:
    """Return one note with all wrong answers that earn something, the best paid first."""
    partly = [
        (outcome.share_of_gold, outcome)
        for outcome in report.outcomes
        if outcome.verdict == "wrong" and not outcome.paid_in_full and outcome.unpaid
        if outcome.counted == outcome.scored  # else it is partly right: the lazy-policy reward says it
        if outcome.share_of_gold is not None and outcome.share_of_gold > TOLERANCE
    ]
    if not partly:
        return []
    by_share: dict[str, list[str]] = {}
    for share, outcome in sorted(partly, key=lambda item: -item[0]):
        by_share.setdefault(f"{share:.0%}", []).append(outcome.name)
    best = max(partly, key=lambda item: item[0])[1]
    parts = "; ".join(f"{share} {', '.join(names)}" for share, names in by_share.items())
    return [
        Finding(
            level="note",
            code="partial_credit",
            message=f"wrong answers earn a part of the right answer's score: {parts} "
            f"({best.name}: {_components(best.components)})",
            check=best.name,
            example_id=best.unpaid[0],
        )
    ]


def _judge_right(outcome: ProbeOutcome) -> Finding | None:
    if not outcome.counted or len(outcome.unpaid) / outcome.counted <= FALSE_FAIL_SHARE:
        return None
    return Finding(
        level="warning",
        code=f"false_fail_{outcome.name}",
        message=f"{outcome.what} is not paid in full on {len(outcome.unpaid)} of {outcome.counted} examples "
        f"({_components(outcome.components)}; example {outcome.unpaid[0]})",
        check=outcome.name,
        example_id=outcome.unpaid[0],
    )


def _judge_gold(report: ProbeReport) -> list[Finding]:
    if report.gold is None:
        return [
            Finding(
                level="unchecked",
                code="gold",
                check=GOLD,
                message="the environment gives no right answers, so it was not checked that they are paid, and "
                "half of the probes were not played; an `answer` or `ground_truth` field, or a `gold` method, "
                "would do",
            )
        ]
    if not report.unpaid_gold:
        return []
    failures = f" ({_counts(report.gold.failures)})" if report.gold.failures else ""
    return [
        Finding(
            level="fault",
            code="gold_not_paid",
            message=f"the right answer earns no more than any wrong one on {len(report.unpaid_gold)} of "
            f"{report.gold.examples} examples{failures}, {report.unpaid_gold[0]} for one",
            check=GOLD,
            example_id=report.unpaid_gold[0],
        )
    ]


def _judge_crashes(crashes: Sequence[Crash]) -> list[Finding]:
    """Return one finding for each kind of failure, with the probes that it shows on."""
    kinds: dict[tuple[str, str], list[Crash]] = {}
    for crash in crashes:
        kinds.setdefault((crash.reason, crash.error.partition(":")[0]), []).append(crash)
    findings = []
    for (reason, _), found in kinds.items():
        names = ", ".join(dict.fromkeys(crash.probe for crash in found))
        hangs = reason == ROLLOUT_TIMEOUT
        findings.append(
            Finding(
                level="fault",
                code="reward_hangs" if hangs else "reward_raises",
                message=f"the environment {'takes too long over' if hangs else 'fails to score'} some answers "
                f"({names}): {reason}: {found[0].error}",
                check=found[0].probe,
                example_id=found[0].example_id,
            )
        )
    return findings


def _judge_unreachable(report: ProbeReport) -> list[Finding]:
    findings = []
    for reason in sorted(UNREACHABLE & {crash.reason for crash in report.unreachable}):
        found = [crash for crash in report.unreachable if crash.reason == reason]
        what = _OUTSIDE.get(reason, "the model server was not reachable")
        findings.append(
            Finding(
                level="unchecked",
                code=reason,
                check=found[0].probe,
                example_id=found[0].example_id,
                message=f"{what}: {len(found)} answers were not scored: {found[0].error}",
            )
        )
    return findings


def _components(components: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in components.items()) or "no components"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in counts.items())
