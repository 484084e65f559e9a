"""What the loop writes down of a step: its rollouts, and the figures that are made of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from castform.eval_result import EvalResult
from castform.fidelity import count_calls, sum_fidelity
from castform.plugins.events import GroupScored
from castform.rollouts import RolloutGroup
from castform_trainer.learning.reporter import Reporter
from castform_trainer.rl.judging import JudgedGroup
from castform_trainer.rl.policy import UpdateStats


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutReporter(Reporter):
    """Stores rollouts, too."""

    calls_path: str | None = None
    """Log of the model calls of this process, relative to the run folder."""

    def keep_step(self, judged: Sequence[JudgedGroup], *, step: int) -> None:
        """Store a step's rollouts with what was done with each."""
        self.store.add_rollouts(
            self.run.run_id,
            [item.group for item in judged],
            mode="train",
            step=step,
            calls_path=self.calls_path,
            dispositions={
                rollout_id: str(disposition)
                for item in judged
                for rollout_id, disposition in item.dispositions.items()
            },
        )

    def keep_eval(self, groups: Sequence[RolloutGroup], *, step: int) -> None:
        """Store an evaluation's rollouts; those that a run before its resume stored already stay."""
        known = {
            item.rollout_id for item in self.store.list_rollouts(self.run.run_id, mode="eval", step=step)
        }
        new = [group for group in groups if group.rollouts[0].rollout_id not in known]
        self.store.add_rollouts(self.run.run_id, new, mode="eval", step=step, calls_path=self.calls_path)


def scored_event(judged: JudgedGroup, *, step: int) -> GroupScored:
    """Describe a judged group for watchers and progress."""
    group = judged.group
    return GroupScored(
        step=step,
        group_id=group.group_id,
        example_id=group.example_id,
        scores=tuple(judged.scores),
        rewards=tuple(rollout.rewards for rollout in group.rollouts),
        has_signal=judged.has_signal,
    )


def rollout_scalars(judged: Sequence[JudgedGroup]) -> dict[str, float]:
    """Return reward means and spreads, signal and failures over every group that was run."""
    rollouts = [rollout for item in judged for rollout in item.group.rollouts]
    scored = [rollout for rollout in rollouts if rollout.score is not None]
    scalars = {
        "groups/run": float(len(judged)),
        "groups/signal_share": sum(item.has_signal for item in judged) / max(1, len(judged)),
        "rollouts/failed_share": 1.0 - len(scored) / max(1, len(rollouts)),
    }
    scores = [rollout.score for rollout in scored if rollout.score is not None]
    if scores:
        scalars["reward/mean"] = statistics.fmean(scores)
        scalars["reward/spread"] = statistics.pstdev(scores)
    for name in sorted({name for rollout in scored for name in rollout.rewards}):
        values = [rollout.rewards[name] for rollout in scored if name in rollout.rewards]
        scalars[f"reward/component/{name}"] = statistics.fmean(values)
    fidelity = sum_fidelity([count_calls(rollout.calls) for rollout in rollouts])
    if fidelity is not None:
        scalars |= {
            f"fidelity/{name}": float(value)
            for name, value in asdict(fidelity).items()
            if name not in ("sampled_tokens", "aborted_tokens")  # tokens/sampled holds both
        }
    calls = [call for rollout in rollouts for call in rollout.calls]
    if calls:
        scalars["tokens/sampled"] = float(sum(len(call.sampled_ids or ()) for call in calls))
        scalars["tokens/prompt_mean"] = statistics.fmean(len(call.prompt_ids or ()) for call in calls)
        scalars["tokens/reply_mean"] = scalars["tokens/sampled"] / len(calls)
        scalars["rollouts/cut_share"] = sum(call.finish_reason == "length" for call in calls) / len(calls)
    return scalars


def update_scalars(updates: Sequence[UpdateStats]) -> dict[str, float]:
    """Return an optimiser step's figures; the mean over a step's mini-batches."""
    if not updates:
        return {}
    names = {
        "loss": "train/loss",
        "grad_norm": "train/grad_norm",
        "learning_rate": "train/learning_rate",
        "ratio_mean": "train/ratio",
        "clip_fraction": "train/clip_share",
        "importance_mean": "train/importance",
        "sampler_gap": "train/sampler_gap",
    }
    scalars = {
        name: statistics.fmean(getattr(update, field) for update in updates) for field, name in names.items()
    }
    scalars["train/sampler_gap_max"] = max(update.sampler_gap_max for update in updates)
    for field, name in (
        ("trained_tokens", "tokens/trained"),
        ("tree_tokens", "tokens/computed"),
        ("sequence_tokens", "tokens/unshared"),
    ):
        scalars[name] = float(sum(getattr(update, field) for update in updates))
    return scalars


def eval_scalars(result: EvalResult) -> dict[str, float]:
    """Return an evaluation's headline figures."""
    score = result.score()
    scalars = {"eval/scored": float(sum(rollout.score is not None for rollout in result.rollouts))}
    if score is not None:
        scalars["eval/score"] = score.mean
    for name in result.components:
        mean = result.component(name)
        if mean is not None:
            scalars[f"eval/component/{name}"] = mean.mean
    return scalars
