"""Turn what replays and a model's samples showed into findings: can this be trained on, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from castform.eval_result import EvalResult
from castform.replay import ReplayReport
from castform.validation import Finding, Level

TOLERANCE = 1e-9
MANY_FAILED = 0.5
SOME_FAILED = 0.05
LITTLE_SIGNAL = 0.1
MANY_CUT = 0.3
MANY_OVER_BUDGET = 0.1


def judge_replay(report: ReplayReport) -> list[Finding]:
    """Say whether scoring the same transcripts again gave the same."""
    if not report.rollouts:
        return [
            Finding(
                level="unchecked",
                code="determinism",
                check="determinism",
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
                check="determinism",
                example_id=first.example_id,
                message=f"scored again, {rollouts} of {report.rollouts} transcripts differ in {names}: "
                f"{first.what} of example {first.example_id} was {first.first}, then {first.second}",
            )
        )
    if report.diverged:
        findings.append(
            Finding(
                level="warning",
                code="prompts_differ",
                check="determinism",
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


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in counts.items())
