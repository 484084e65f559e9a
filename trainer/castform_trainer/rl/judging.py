"""From a settled group to what is trained of it, and a reason for everything that is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from castform.rollouts import Rollout, RolloutGroup
from castform_trainer.gateway.errors import UntrainableCallError
from castform_trainer.gateway.trajectory import Segment, build_segments
from castform_trainer.rl.accounting import Disposition
from castform_trainer.rl.advantage import AdvantageConfig, compute_advantages, has_signal
from castform_trainer.rl.sequence import TrainSequence


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedGroup:
    """A group after scoring: its part in the next optimiser step, if any."""

    group: RolloutGroup
    sequences: Sequence[TrainSequence]
    """Empty when the group has no signal."""
    dispositions: Mapping[str, Disposition]
    """One for each rollout of the group."""
    scores: Sequence[float | None]
    """Scores that count, in group order: None where a member failed or cannot be trained on."""

    @property
    def has_signal(self) -> bool:
        return bool(self.sequences)


def judge_group(group: RolloutGroup, advantage: AdvantageConfig, *, version: int) -> JudgedGroup:
    """Decide what each rollout of a group is good for.

    A member that failed, has no trainable tokens, or was sampled by another adapter version than
    `version` takes no part: neither in the loss nor in the baseline of its siblings.
    """
    dispositions: dict[str, Disposition] = {}
    segments: dict[str, list[Segment]] = {}
    for rollout in group.rollouts:
        found = _inspect(rollout, version)
        if isinstance(found, Disposition):
            dispositions[rollout.rollout_id] = found
        else:
            segments[rollout.rollout_id] = found
    scores = [rollout.score if rollout.rollout_id in segments else None for rollout in group.rollouts]
    verdict = Disposition(fate="trained")
    if not has_signal(scores, min_valid=advantage.min_valid):
        few = len(segments) < advantage.min_valid
        verdict = Disposition(fate="filtered", reason="too_few_valid" if few else "no_signal")
    dispositions |= dict.fromkeys(segments, verdict)
    sequences: list[TrainSequence] = []
    if verdict.fate == "trained":
        advantages = compute_advantages(scores, advantage)
        for rollout, value in zip(group.rollouts, advantages, strict=True):
            if value is not None:
                sequences += [
                    _make_sequence(rollout, segment, value) for segment in segments[rollout.rollout_id]
                ]
    return JudgedGroup(group=group, sequences=sequences, dispositions=dispositions, scores=scores)


def _inspect(rollout: Rollout, version: int) -> Disposition | list[Segment]:
    if rollout.score is None:
        return Disposition(fate="failed", reason=rollout.termination_reason)
    try:
        segments = build_segments(rollout.calls)
    except UntrainableCallError as error:
        return Disposition(fate="failed", reason=f"untrainable:{error.field}")
    if not segments:
        return Disposition(fate="failed", reason="no_sampled_tokens")
    sampled_by = {
        by for segment in segments for by, m in zip(segment.versions, segment.mask, strict=True) if m
    }
    if sampled_by != {version}:
        return Disposition(fate="stale")
    return segments


def _make_sequence(rollout: Rollout, segment: Segment, advantage: float) -> TrainSequence:
    calls = [""] * len(segment.ids)
    for span in segment.spans:
        calls[span.start : span.end] = [span.call_id] * (span.end - span.start)
    return TrainSequence(
        ids=segment.ids,
        mask=segment.mask,
        logprobs=segment.logprobs,
        advantage=advantage,
        rollout=rollout.rollout_id,
        calls=calls,
    )
