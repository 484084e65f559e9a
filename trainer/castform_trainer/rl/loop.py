"""The training loop: collect groups, take an optimiser step, hand the adapter to the engine, repeat.

collect_step    rounds of groups until enough of them can teach something
Policy.update   GRPO on token trees
sync_engine     the engine loads the new adapter, the canary checks it
save            every few steps: everything that the rest of the run depends on
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from castform.config import RunConfig
from castform.errors import RunFailedError
from castform.plugins.events import CheckpointSaved, StepEnded
from castform_trainer.engines.contract import Engine
from castform_trainer.learning.checkpoint import Checkpoint, save_checkpoint
from castform_trainer.learning.stop import StopSwitch
from castform_trainer.losses import PolicyLoss, make_loss
from castform_trainer.rl.accounting import Ledger
from castform_trainer.rl.batch import TrainBatch, make_batch
from castform_trainer.rl.canary import Canary
from castform_trainer.rl.judging import JudgedGroup
from castform_trainer.rl.policy import Policy, UpdateStats
from castform_trainer.rl.report import RolloutReporter, rollout_scalars, scored_event, update_scalars
from castform_trainer.rl.rollouts import RolloutSource, StepRollouts, collect_step

MAX_SKIPPED_STEPS = 3
"""After so many steps in a row without any signal the run stops and says why."""


@dataclass(kw_only=True, slots=True)
class LoopState:
    """What changes from step to step besides the policy. Saved with every checkpoint."""

    step: int = 0
    """Steps taken."""
    version: int = 0
    """Adapter version that the engine serves; 0 is the base model."""
    next_group: int = 0
    """Number of the next group to issue."""
    skipped_in_row: int = 0
    train_seconds: float = 0.0
    """Time spent in steps, evaluations left out."""
    ledger: Ledger = field(default_factory=Ledger)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values. Nothing is pending between steps."""
        names = ("step", "version", "next_group", "skipped_in_row", "train_seconds")
        return {**{name: getattr(self, name) for name in names}, "ledger": self.ledger.as_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LoopState:
        """Read back what `as_dict` gave."""
        return cls(**{**data, "ledger": Ledger.from_dict(data["ledger"])})


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """The parts that a run is made of. Fixed while it runs."""

    config: RunConfig
    source: RolloutSource
    policy: Policy
    engine: Engine
    canary: Canary
    reporter: RolloutReporter
    stop: StopSwitch
    run_dir: Path
    after_step: Callable[[LoopState], Awaitable[None]]
    """Called after each step, outside the training clock: evaluations on the way."""


async def train_steps(run: Training, state: LoopState) -> None:
    """Take steps until the config's number is reached or the stop switch goes on.

    `state` is always that of the last whole step: what a stop cuts short is as if it had not
    begun, and a resumed run repeats it exactly.
    """
    loss = make_loss(run.config.rl)
    while state.step < run.config.run.steps and run.stop.reason is None:
        began = time.monotonic()
        step, ledger = state.step + 1, state.ledger.copy()
        collected = await run.stop.guard(
            collect_step(
                run.source,
                first=state.next_group,
                version=state.version,
                ledger=ledger,
                on_group=partial(_tell_group, run.reporter, step),
            ),
            deadline=_deadline(run.config, state, began),
        )
        if collected is None:
            break
        collected_at = time.monotonic()
        ledger.check()
        kept = collected.kept
        updates = await _learn(run, loss, kept) if kept else []
        updated_at = time.monotonic()
        if updates:
            state.version = await sync_engine(run, state.version + 1, step=step)
        state.step, state.ledger = step, ledger
        state.next_group += len(collected.judged)
        state.skipped_in_row = 0 if updates else state.skipped_in_row + 1
        state.train_seconds += time.monotonic() - began
        times = {
            "time/rollouts_seconds": collected_at - began,
            "time/update_seconds": updated_at - collected_at,
            "time/sync_seconds": time.monotonic() - updated_at,
            "time/step_seconds": time.monotonic() - began,
            "time/train_seconds": state.train_seconds,
        }
        await asyncio.to_thread(_record, run, state, collected, updates, times)
        run.reporter.tell(StepEnded(step=step, scalars=_scalars(collected, updates, times)))
        if state.skipped_in_row >= MAX_SKIPPED_STEPS:
            raise _no_signal(state, collected.judged)
        if step % run.config.checkpoint.every == 0 and step < run.config.run.steps:
            await save(run, state)
        await run.after_step(state)


async def _learn(run: Training, loss: PolicyLoss, kept: Sequence[JudgedGroup]) -> list[UpdateStats]:
    """Take the optimiser steps of one batch of rollouts, off the event loop."""
    parts = min(run.config.rl.minibatches, len(kept))
    share = min(1.0, len(kept) / run.config.rl.groups_per_step)
    batches = [_make_batch(run, kept[part::parts], share) for part in range(parts)]
    return await asyncio.to_thread(run.policy.update, batches, loss)


def _make_batch(run: Training, groups: Sequence[JudgedGroup], share: float) -> TrainBatch:
    return make_batch(
        [sequence for judged in groups for sequence in judged.sequences],
        tokens_per_microbatch=run.config.optimizer.tokens_per_microbatch,
        share=share,
    )


async def sync_engine(run: Training, version: int, *, step: int) -> int:
    """Hand the policy's adapter to the engine as `version`, check it, forget the one before.

    Every version has a folder of its own: an engine may cache by path.
    """
    folder = run.run_dir / "adapters" / f"v{version:06d}"
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    try:
        await asyncio.to_thread(run.policy.save_adapter, folder)
    except OSError as error:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise RunFailedError(
            f"cannot write the adapter {folder}: {error.strerror or error}",
            hint="free some space, then `castform train --resume`; the last checkpoint is whole",
        ) from error
    await run.engine.load_adapter(folder, version)
    reading = await run.canary.check(run.engine, version=version)
    run.reporter.note("canary", step=step, data=asdict(reading))
    await run.engine.unload(version - 1)
    await asyncio.to_thread(shutil.rmtree, folder.parent / f"v{version - 1:06d}", ignore_errors=True)
    return version


async def save(run: Training, state: LoopState) -> Checkpoint:
    """Write a checkpoint of the last whole step."""
    checkpoint = await asyncio.to_thread(
        save_checkpoint,
        run.run_dir / "checkpoints",
        step=state.step,
        counters=state.as_dict(),
        tensors=run.policy.state(),
        save_weights=run.policy.save_adapter,
        keep=run.config.checkpoint.keep,
    )
    run.reporter.tell(CheckpointSaved(step=state.step, path=checkpoint.path))
    return checkpoint


def _tell_group(reporter: RolloutReporter, step: int, judged: JudgedGroup) -> None:
    reporter.tell(scored_event(judged, step=step))


def _record(
    run: Training,
    state: LoopState,
    collected: StepRollouts,
    updates: Sequence[UpdateStats],
    times: dict[str, float],
) -> None:
    run.reporter.keep_step(collected.judged, step=state.step)
    run.reporter.note("conservation", step=state.step, data=state.ledger.as_dict())
    if not updates:
        reasons = Counter(str(d) for judged in collected.judged for d in judged.dispositions.values())
        run.reporter.note("skipped_step", step=state.step, data={"no_signal": dict(reasons)})


def _scalars(
    collected: StepRollouts, updates: Sequence[UpdateStats], times: dict[str, float]
) -> dict[str, float]:
    scalars = {
        **rollout_scalars(collected.judged),
        **update_scalars(updates),
        **times,
        "groups/trained": float(len(collected.kept)),
        "groups/rounds": float(collected.rounds),
    }
    if times["time/rollouts_seconds"] > 0:
        scalars["speed/sampled_tokens_per_second"] = (
            scalars.get("tokens/sampled", 0.0) / times["time/rollouts_seconds"]
        )
    if updates and times["time/update_seconds"] > 0:
        scalars["speed/computed_tokens_per_second"] = (
            scalars["tokens/computed"] / times["time/update_seconds"]
        )
    return scalars


def _deadline(config: RunConfig, state: LoopState, now: float) -> float | None:
    if config.run.max_seconds is None:
        return None
    return now + config.run.max_seconds - state.train_seconds


def _no_signal(state: LoopState, judged: Sequence[JudgedGroup]) -> RunFailedError:
    reasons = Counter(str(d) for item in judged for d in item.dispositions.values())
    errors = Counter(rollout.error for item in judged for rollout in item.group.rollouts if rollout.error)
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    seen = f"; the commonest error: {errors.most_common(1)[0][0]}" if errors else ""
    scores = {score for item in judged for score in item.scores if score is not None}
    if not scores:
        advice = "every rollout failed: `castform runs rollouts RUN` shows them"
    elif len(scores) == 1:
        advice = (
            f"every reward was {scores.pop():g}: show the model a solved example in the prompt, choose an "
            "easier split, or pay for parts of the answer; `castform validate` measures this before a run"
        )
    else:
        advice = "siblings always score alike: raise rl.group_size or sampling.temperature"
    return RunFailedError(
        f"no signal: in {state.skipped_in_row} steps in a row no group had rollouts that scored "
        f"differently (the last step: {listed}{seen})",
        hint=advice,
    )
