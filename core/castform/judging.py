"""Turn what a validation measured into findings in words: can this be trained on, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from castform.eval_result import EvalResult
from castform.probes import ProbeReport
from castform.replay import ReplayReport
from castform.validation import Finding, Level

TOLERANCE = 1e-9
MANY_FAILED = 0.5
SOME_FAILED = 0.05
LITTLE_SIGNAL = 0.1
MANY_CUT = 0.3
MANY_OVER_BUDGET = 0.1


def judge_probes(report: ProbeReport) -> list[Finding]:
    """Say what is wrong with a reward that pays probes, or does not pay the right answer."""
    findings: list[Finding] = []
    for outcome in report.outcomes:
        if outcome.scores:
            findings.append(
                Finding(
                    level="fault",
                    code=f"reward_pays_{outcome.name}",
                    message=f"{outcome.what} earns as much as the right answer on {len(outcome.paid_in_full)} of "
                    f"{outcome.scored} examples ({_components(outcome.components)}; example "
                    f"{outcome.paid_in_full[0]})",
                )
            )
        elif outcome.paid_in_full:
            findings.append(
                Finding(
                    level="note",
                    code=f"{outcome.name}_sometimes_right",
                    message=f"{outcome.what} is paid in full on {len(outcome.paid_in_full)} of {outcome.scored} "
                    "examples, which may be coincidence",
                )
            )
        elif outcome.share_of_gold and outcome.share_of_gold > TOLERANCE:
            findings.append(
                Finding(
                    level="note",
                    code=f"{outcome.name}_partial_credit",
                    message=f"{outcome.what} earns {outcome.share_of_gold:.0%} of the right answer's score "
                    f"({_components(outcome.components)})",
                )
            )
    findings += _judge_gold(report)
    if report.crashes:
        findings.append(
            Finding(
                level="fault",
                code="reward_raises",
                message=f"the environment fails to score some answers: {'; '.join(report.crashes[:3])}",
            )
        )
    return findings


def _judge_gold(report: ProbeReport) -> list[Finding]:
    if report.gold is None:
        return [
            Finding(
                level="unchecked",
                code="gold",
                message="the environment gives no right answers, so it was not checked that they are paid; "
                "an `answer` or `ground_truth` field, or a `gold` method, would",
            )
        ]
    if not report.unpaid_gold:
        return []
    failures = f" ({_counts(report.gold.failures)})" if report.gold.failures else ""
    return [
        Finding(
            level="fault",
            code="gold_not_paid",
            message=f"the right answer earns no more than an empty one on {len(report.unpaid_gold)} of "
            f"{report.gold.examples} examples{failures}, {report.unpaid_gold[0]} for one",
        )
    ]


def judge_replay(report: ReplayReport) -> list[Finding]:
    """Say whether scoring the same transcripts again gave the same."""
    if not report.rollouts:
        return [
            Finding(
                level="unchecked",
                code="determinism",
                message="no rollout could be played again, so it is not known whether rewards repeat",
            )
        ]
    findings: list[Finding] = []
    if report.differences:
        first = report.differences[0]
        rollouts = len({difference.rollout_id for difference in report.differences})
        names = ", ".join(sorted({difference.what for difference in report.differences}))
        findings.append(
            Finding(
                level="fault",
                code="nondeterministic",
                message=f"scored again, {rollouts} of {report.rollouts} transcripts differ in {names}: "
                f"{first.what} of example {first.example_id} was {first.first}, then {first.second}",
            )
        )
    if report.diverged:
        findings.append(
            Finding(
                level="warning",
                code="prompts_differ",
                message=f"given the same replies, the environment sent other messages in {len(report.diverged)} of "
                f"{report.rollouts} rollouts",
            )
        )
    return findings


def judge_result(
    result: EvalResult, *, full_score: float, max_context_tokens: int | None = None
) -> list[Finding]:
    """Say whether groups of this model's rollouts give a gradient."""
    rollouts = result.rollouts
    scores = [rollout.score for rollout in rollouts if rollout.score is not None]
    failed = len(rollouts) - len(scores)
    findings: list[Finding] = []
    if failed:
        error = next((r.error for r in rollouts if r.score is None and r.error), None)
        share = failed / len(rollouts)
        level: Level = "fault" if share > MANY_FAILED else "warning" if share > SOME_FAILED else "note"
        code = "all_failed" if not scores else "many_failed" if share > MANY_FAILED else "some_failed"
        message = f"{failed} of {len(rollouts)} rollouts were not scored ({_counts(result.failures)})"
        findings.append(Finding(level=level, code=code, message=message + (f": {error}" if error else "")))
    if scores:
        findings += _judge_scores(result, scores, full_score)
        findings += _judge_components(result)
    findings += _judge_lengths(result, max_context_tokens)
    return findings


def _judge_scores(result: EvalResult, scores: Sequence[float], full_score: float) -> list[Finding]:
    low, high = min(scores), max(scores)
    if high - low <= TOLERANCE:
        if abs(high) <= TOLERANCE:
            code, why = "all_zero", "every score is 0: the model never earns anything; make the task easier"
        elif high >= full_score - TOLERANCE:
            code, why = "all_one", "every score is full: there is nothing left to learn; make the task harder"
        else:
            code, why = "constant", f"every score is {high:g}: no answer is better than another"
        return [Finding(level="fault", code=code, message=why)]
    share = result.signal_share
    if share is None:
        return [
            Finding(
                level="unchecked",
                code="signal",
                message="no group has two scored rollouts, so it is not known whether siblings differ",
            )
        ]
    if share == 0:
        return [
            Finding(
                level="fault",
                code="no_signal",
                message="within each group all scores are equal, so no group has a gradient; sample at a higher "
                "temperature, or choose examples that the model solves sometimes",
            )
        ]
    if share < LITTLE_SIGNAL:
        return [
            Finding(
                level="warning",
                code="little_signal",
                message=f"only {share:.0%} of the groups have differing scores; most sampling would be wasted",
            )
        ]
    return []


def _judge_components(result: EvalResult) -> list[Finding]:
    findings: list[Finding] = []
    for name in result.components if len(result.components) > 1 else []:
        values = [rollout.rewards[name] for rollout in result.rollouts if name in rollout.rewards]
        if max(values) - min(values) <= TOLERANCE:
            findings.append(
                Finding(
                    level="warning" if abs(values[0]) <= TOLERANCE else "note",
                    code="constant_component",
                    message=f"component {name} is {values[0]:g} in every rollout, so nothing is learned from it",
                )
            )
    return findings


def _judge_lengths(result: EvalResult, max_context_tokens: int | None) -> list[Finding]:
    findings: list[Finding] = []
    finishes = result.finish_reasons
    cut = finishes.get("length", 0) / sum(finishes.values()) if finishes else 0.0
    if cut > MANY_CUT:
        findings.append(
            Finding(
                level="warning",
                code="replies_cut",
                message=f"{cut:.0%} of the replies were cut off at the length limit; raise max_new_tokens",
            )
        )
    over = result.termination_reasons.get("context_exceeded", 0) / len(result.rollouts)
    if over > MANY_OVER_BUDGET:
        limit = f" of {max_context_tokens} tokens" if max_context_tokens else ""
        findings.append(
            Finding(
                level="warning",
                code="context_full",
                message=f"{over:.0%} of the rollouts ran out of the context budget{limit}",
            )
        )
    return findings


def _components(components: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in components.items()) or "no components"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in counts.items())
