"""The finetuning loop: take a step, now and then measure the held-out loss, now and then save.

rows_of      the rows of the step, from the seed and the step's number alone
update       weighted token loss with one denominator, one optimiser step
evaluate     held-out loss on the live weights, at its own cadence
answer       replies to held-out rows on the live weights, before the first step and after the last
save         every few steps: everything that the rest of the run depends on
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from castform.errors import RunFailedError
from castform.plugins.events import CheckpointSaved, EvalEnded, StepEnded
from castform.sft.answers import LABELS, HeldOutAnswers
from castform.sft.config import SftConfig
from castform.sft.held_out import HeldOutLoss, RowLoss
from castform_trainer.engines.vllm_folder import read_end_ids
from castform_trainer.learning.checkpoint import Checkpoint, save_checkpoint
from castform_trainer.learning.reporter import Reporter
from castform_trainer.learning.stop import StopSwitch
from castform_trainer.sft.answers import generate_replies
from castform_trainer.sft.batch import SftBatch, make_batch
from castform_trainer.sft.learner import SftLearner, UpdateStats
from castform_trainer.sft.preflight import Prepared
from castform_trainer.sft.questions import AnswerReader

RESUME = "castform sft train --resume"


@dataclass(kw_only=True, slots=True)
class LoopState:
    """What changes from step to step besides the weights. Saved with every checkpoint."""

    step: int = 0
    """Steps taken."""
    trained_tokens: int = 0
    train_seconds: float = 0.0
    """Time spent in steps, evaluations and checkpoints left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """The parts that a run is made of. Fixed while it runs."""

    prepared: Prepared
    learner: SftLearner
    reporter: Reporter
    stop: StopSwitch
    run_dir: Path
    save_weights: Callable[[Path], None]
    """Writes the adapter, or the model with its tokenizer, into a new folder."""

    @property
    def config(self) -> SftConfig:
        return self.prepared.config

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return self.prepared.schedule.steps

    def is_stopped(self) -> bool:
        """Whether what is going on is to be left at once; running out of time lets it end."""
        return self.stop.reason in ("signal", "requested")


async def train_steps(run: Training, state: LoopState) -> None:
    """Take steps until the schedule's end or until the stop switch goes on.

    `state` is always that of the last whole step: what a stop cuts short is as if it had not
    begun, and a resumed run repeats it exactly.
    """
    limit = run.config.run.max_seconds
    while state.step < run.steps and run.stop.reason is None:
        began = time.monotonic()
        batch = _make_batch(run, state.step)
        update = await asyncio.to_thread(run.learner.update, batch, run.is_stopped)
        if update is None:
            break
        state.step += 1
        state.trained_tokens += batch.trained_tokens
        seconds = time.monotonic() - began
        state.train_seconds += seconds
        run.reporter.tell(StepEnded(step=state.step, scalars=_scalars(run, state, batch, update, seconds)))
        is_last = state.step == run.steps
        if _is_due(run.config.eval.every, state.step) and not is_last:
            await evaluate(run, state, "step")
        if _is_due(run.config.checkpoint.every, state.step) and not is_last and not run.is_stopped():
            await save(run, state)
        if limit is not None and state.train_seconds >= limit and not is_last:
            run.stop.turn_on("time")


async def evaluate(run: Training, state: LoopState, label: str) -> HeldOutLoss | None:
    """Measure and store the held-out loss; None without held-out rows or when the run is to stop.

    Raises RunFailedError when the loss is no finite number.
    """
    samples = run.prepared.held_out
    if not samples:
        return None
    began = time.monotonic()
    measure = partial(
        run.learner.measure,
        samples,
        tokens_per_microbatch=run.config.batch.tokens_per_microbatch,
        packing=run.config.batch.packing,
        is_stopped=run.is_stopped,
    )
    sums = await asyncio.to_thread(measure)
    if sums is None:
        return None
    nll, weight = [0.0] * run.prepared.eval_rows, [0.0] * run.prepared.eval_rows
    for sample, value in zip(samples, sums, strict=True):
        nll[sample.row] += value
        weight[sample.row] += sum(sample.weights)
    rows = tuple(RowLoss(nll=n, weight=w) for n, w in zip(nll, weight, strict=True))
    result = HeldOutLoss(rows=rows, seconds=time.monotonic() - began)
    if not math.isfinite(result.loss):
        raise RunFailedError(
            f"the held-out loss is {result.loss} after {state.step} steps, so there is nothing to compare",
            hint="training diverged: lower optimizer.learning_rate and start a new run"
            if state.step
            else 'the weights are damaged, or too large for the format: try model.dtype = "float32"',
        )
    reporter = run.reporter
    reporter.store.add_eval(reporter.run.run_id, label, step=state.step, result=result.as_dict())
    reporter.tell(EvalEnded(step=state.step, scalars={"eval/loss": result.loss}))
    return result


async def answer(run: Training, state: LoopState, label: str) -> HeldOutAnswers | None:
    """Answer the held-out questions and store it; None without questions or when the run is to stop."""
    prepared = run.prepared
    if not prepared.questions:
        return None
    began = time.monotonic()
    reader = AnswerReader(prepared.template, end_ids=read_end_ids(prepared.model.path))
    replies = await asyncio.to_thread(
        generate_replies, run.learner, prepared.questions, reader, is_stopped=run.is_stopped
    )
    if replies is None:
        return None
    found = HeldOutAnswers(
        answers=tuple(map(reader.read, prepared.questions, replies)),
        rows=prepared.eval_rows,
        seconds=time.monotonic() - began,
    )
    reporter = run.reporter
    reporter.store.add_eval(reporter.run.run_id, LABELS[label], step=state.step, result=found.as_dict())
    reporter.tell(EvalEnded(step=state.step, scalars={"eval/exact_match": found.exact_match}))
    return found


async def save(run: Training, state: LoopState) -> Checkpoint:
    """Write a checkpoint of the last whole step."""
    checkpoint = await asyncio.to_thread(
        save_checkpoint,
        run.run_dir / "checkpoints",
        step=state.step,
        counters=asdict(state),
        tensors=run.learner.state(),
        name=run.learner.result_name,
        save_weights=run.save_weights,
        keep=run.config.checkpoint.keep,
        resume=RESUME,
    )
    run.reporter.tell(CheckpointSaved(step=state.step, path=checkpoint.path))
    return checkpoint


def _make_batch(run: Training, step: int) -> SftBatch:
    rows = run.prepared.schedule.rows_of(step)
    return make_batch(
        [sample for row in rows for sample in run.prepared.train[row]],
        tokens_per_microbatch=run.config.batch.tokens_per_microbatch,
        packing=run.config.batch.packing,
        window=run.learner.window,
    )


def _scalars(
    run: Training, state: LoopState, batch: SftBatch, update: UpdateStats, seconds: float
) -> dict[str, float]:
    scalars: dict[str, Any] = {
        "train/loss": update.loss,
        "train/grad_norm": update.grad_norm,
        "train/learning_rate": update.learning_rate,
        "train/epoch": state.step / run.prepared.schedule.steps_per_epoch,
        "tokens/trained": batch.trained_tokens,
        "tokens/trained_so_far": state.trained_tokens,
        "tokens/computed": batch.computed_tokens,
        "tokens/unshared": batch.sample_tokens,
        "time/step_seconds": seconds,
        "time/train_seconds": state.train_seconds,
        "speed/tokens_per_second": batch.sample_tokens / max(seconds, 1e-9),
    }
    return {name: float(value) for name, value in scalars.items()}


def _is_due(every: int, step: int) -> bool:
    return every > 0 and step % every == 0
