"""One finetuning run from config to verdict: open, measure, train, measure again, compare."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from castform.errors import UsageError
from castform.plugins.events import RunInfo, RunStarted
from castform.plugins.watchers import load_watchers
from castform.runs import RunStore, hold_run_folder, run_folder
from castform.seeds import derive_seed
from castform.sft.answers import LABELS, HeldOutAnswers, add_answers, compare_answers
from castform.sft.config import SftConfig
from castform.sft.held_out import HeldOutLoss, compare_losses
from castform.verdict import Verdict
from castform_trainer.learning.checkpoint import Checkpoint, list_checkpoints
from castform_trainer.learning.ownership import own_run, torch_settings
from castform_trainer.learning.reporter import Reporter, RunListener
from castform_trainer.learning.stop import StopSwitch
from castform_trainer.models import load_causal_lm
from castform_trainer.sft.inputs import Inputs, describe_input_changes, read_moment
from castform_trainer.sft.isolation import check_isolation
from castform_trainer.sft.learner import SftLearner
from castform_trainer.sft.loop import RESUME, LoopState, Training, answer, evaluate, save, train_steps
from castform_trainer.sft.model_folder import save_result, save_weights
from castform_trainer.sft.preflight import Prepared, prepare

KIND = "sft"


@dataclass(frozen=True, kw_only=True, slots=True)
class SftResult:
    """How a run ended."""

    run_id: str
    run_dir: Path
    status: str
    """finished or stopped."""
    stopped_by: str | None
    """signal, requested or time; None when all steps were taken."""
    steps: int
    train: Mapping[str, int | None]
    """`rows` of the training file, and the `sampled_rows` among them, None where no sampled ids are kept."""
    trained_tokens: int
    train_seconds: float
    method: str
    """lora or full."""
    result: Path
    """Plain PEFT folder, or plain transformers folder."""
    before: HeldOutLoss | None
    after: HeldOutLoss | None
    answers_before: HeldOutAnswers | None
    answers_after: HeldOutAnswers | None
    """None without held-out rows, with eval.answers = 0, and when the run was stopped before them."""
    verdict: Verdict | None
    """The loss decides its word; exact match of the answers is its one component. None without held-out rows, and when the run was stopped before the second measurement."""


async def train_sft(
    config: SftConfig,
    *,
    store: RunStore,
    run_id: str | None = None,
    run_dir: Path | None = None,
    listeners: Sequence[RunListener] = (),
    now: datetime | None = None,
    is_launched: bool = False,
) -> SftResult:
    """Start a new run and see it to its end.

    Nothing is kept of a run that cannot start: it is stored when data and model are open, unless
    it `is_launched`: then it is in the store already, and a stop may have been asked for. A
    template that writes the date writes that of `now`, of the start, when the run is resumed, too.
    """
    prepared = await asyncio.to_thread(prepare, config, now=now)
    run_id = run_id or secrets.token_hex(5)
    run_dir = run_dir or run_folder(store.home, run_id)

    def register() -> None:
        if not is_launched:
            store.create_run(
                kind=KIND,
                name=config.run.name or _name(prepared),
                config=config.model_dump(mode="json"),
                run_id=run_id,
                run_dir=run_dir,
            )
        store.add_event(run_id, "inputs", data=prepared.inputs)

    return await _run(prepared, store, run_id, run_dir, listeners, register=register, is_launched=is_launched)


async def resume_sft(
    run_id: str,
    *,
    store: RunStore,
    listeners: Sequence[RunListener] = (),
    change: Callable[[SftConfig], SftConfig] = lambda config: config,
) -> SftResult:
    """Continue a run from its last checkpoint, with the config it was started with.

    `change` may adjust what leaves the steps so far as they are (run.epochs, run.steps,
    run.max_seconds); a cosine then goes on towards the new end. Raises UsageError when the run is
    going on, is no finetuning, has taken all its steps, or was started with other inputs.
    """
    record = store.find_run(run_id)
    if record.kind != KIND or record.run_dir is None:
        hint = f"`castform train --resume {record.run_id}` resumes it" if record.kind == "train" else None
        raise UsageError(f"run {record.run_id} is a run of {record.kind}, not of finetuning", hint=hint)
    if record.status == "running":
        raise UsageError(
            f"run {record.run_id} is still going on (pid {record.pid} on {record.host})",
            hint=f"`castform runs stop {record.run_id}` stops it",
        )
    config = change(SftConfig.model_validate(record.config))
    inputs = _stored_inputs(store, record.run_id)
    prepared = await asyncio.to_thread(prepare, config, now=read_moment(inputs))
    _check_inputs(inputs, prepared, record.run_id)
    done = [checkpoint.step for checkpoint in list_checkpoints(record.run_dir / "checkpoints")]
    if record.status == "finished" and done and done[-1] >= prepared.schedule.steps:
        raise UsageError(
            f"run {record.run_id} has finished its {prepared.schedule.steps} steps",
            hint=f"`{RESUME} {record.run_id} --steps {2 * prepared.schedule.steps}` goes on from there",
        )
    if done and done[-1] > prepared.schedule.steps:
        raise UsageError(
            f"run {record.run_id} has taken {done[-1]} steps already, and is to end after {prepared.schedule.steps}",
            hint=f"`{RESUME} {record.run_id} --steps {done[-1]}` ends it where it is, more steps go on",
        )
    store.set_config(record.run_id, config.model_dump(mode="json"))
    return await _run(prepared, store, record.run_id, record.run_dir, listeners)


def _stored_inputs(store: RunStore, run_id: str) -> Inputs:
    """Return what the run was started with; empty for a run that did not get that far."""
    events = store.list_events(run_id, kind="inputs")
    return events[-1].data if events else {}


def _check_inputs(inputs: Inputs, prepared: Prepared, run_id: str) -> None:
    changes = describe_input_changes(inputs, prepared.inputs) if inputs else []
    if changes:
        raise UsageError(
            f"run {run_id} was started with other inputs:\n" + "\n".join(f"  {line}" for line in changes),
            hint="put them back as they were to go on with this run, or start a new one",
        )


async def _run(
    prepared: Prepared,
    store: RunStore,
    run_id: str,
    run_dir: Path,
    listeners: Sequence[RunListener],
    *,
    register: Callable[[], None] | None = None,
    is_launched: bool = False,
) -> SftResult:
    """Open everything, then own the run. `register` stores a new run; without it one is resumed."""
    section = prepared.config.run
    is_new_folder = await asyncio.to_thread(lambda: not run_dir.exists())
    stop = StopSwitch()
    async with AsyncExitStack() as stack:
        stack.enter_context(hold_run_folder(run_dir))
        stack.enter_context(torch_settings(threads=section.threads, deterministic=section.deterministic))
        stack.enter_context(stop.on_signals())
        try:
            checkpoint = None if register is not None else _last_checkpoint(run_dir)
            reporter = _make_reporter(prepared, store, run_id, run_dir, listeners)
            training = await asyncio.to_thread(_open_training, prepared, reporter, stop, run_dir, checkpoint)
            if register is not None:
                register()
        except BaseException:
            if is_new_folder:
                shutil.rmtree(run_dir, ignore_errors=True)
            raise
        state = LoopState()
        with store.running(run_id, keep_stop_request=is_launched):
            return await own_run(
                _train_and_judge(training, state, checkpoint),
                reporter=reporter,
                stop=stop,
                steps=lambda: state.step,
            )


def _open_training(
    prepared: Prepared, reporter: Reporter, stop: StopSwitch, run_dir: Path, checkpoint: Checkpoint | None
) -> Training:
    """Load the model and put it where the checkpoint was."""
    config, model = prepared.config, prepared.model
    is_full = config.run.method == "full"
    learner = SftLearner(
        load_causal_lm(
            checkpoint.model if is_full and checkpoint else model.path,
            dtype="float32" if is_full else model.dtype,
            device=model.device,
        ),
        config,
        seed=derive_seed(config.run.seed, "lora"),
        steps=prepared.schedule.steps,
        compute_dtype=getattr(torch, model.dtype),
    )
    if config.batch.packing:
        check_isolation(learner, [*(row[0] for row in prepared.train), *prepared.held_out])
    if checkpoint is not None:
        learner.load_state(checkpoint.load_tensors())
    return Training(
        prepared=prepared,
        learner=learner,
        reporter=reporter,
        stop=stop,
        run_dir=run_dir,
        save_weights=partial(save_weights, learner, model.path),
    )


async def _train_and_judge(run: Training, state: LoopState, checkpoint: Checkpoint | None) -> SftResult:
    """The whole run, on parts that are open."""
    reporter, run_id = run.reporter, run.reporter.run.run_id
    reporter.store.truncate_after_step(run_id, checkpoint.step if checkpoint else -1)
    if checkpoint is not None:
        restored = LoopState(**checkpoint.counters)
        for field in fields(state):
            setattr(state, field.name, getattr(restored, field.name))
    reporter.tell(
        RunStarted(steps=run.steps, start_step=state.step, config=run.config.model_dump(mode="json"))
    )
    before = _stored(run, "before") or await evaluate(run, state, "before")
    answers_before = _stored_answers(run, "before")
    if before is not None and answers_before is None and state.step == 0:
        answers_before = await answer(run, state, "before")
    await train_steps(run, state)
    await save(run, state)
    write = partial(save_result, canary_ids=run.prepared.template.canary_ids)
    result = await asyncio.to_thread(write, run.learner, run.prepared.model.path, run.run_dir)
    after = answers_after = verdict = None
    if run.stop.reason in (None, "time"):
        after = _stored(run, "after", step=state.step) or await evaluate(run, state, "after")
        if after is not None and answers_before is not None:
            answers_after = _stored_answers(run, "after", step=state.step)
            answers_after = answers_after or await answer(run, state, "after")
    is_whole = answers_before is None or answers_after is not None
    if before is not None and after is not None and is_whole:
        verdict = compare_losses(before, after, seed=run.config.run.seed)
        if answers_before is not None and answers_after is not None:
            found = compare_answers(answers_before, answers_after, seed=run.config.run.seed)
            verdict = add_answers(verdict, found)
        reporter.store.add_eval(run_id, "verdict", step=state.step, result=verdict.as_dict())
    return SftResult(
        run_id=run_id,
        run_dir=run.run_dir,
        status="stopped" if run.is_stopped() else "finished",
        stopped_by=run.stop.reason,
        steps=state.step,
        train={"rows": len(run.prepared.train), "sampled_rows": run.prepared.sampled_rows["train"]},
        trained_tokens=state.trained_tokens,
        train_seconds=state.train_seconds,
        method=run.config.run.method,
        result=result,
        before=before,
        after=after,
        answers_before=answers_before,
        answers_after=answers_after,
        verdict=verdict,
    )


def _last_checkpoint(run_dir: Path) -> Checkpoint | None:
    checkpoints = list_checkpoints(run_dir / "checkpoints")
    return checkpoints[-1] if checkpoints else None


def _stored(run: Training, label: str, *, step: int | None = None) -> HeldOutLoss | None:
    """Return a measurement that the run has from before its resume."""
    found = _find_eval(run, label, step)
    return None if found is None else HeldOutLoss.from_dict(found)


def _stored_answers(run: Training, label: str, *, step: int | None = None) -> HeldOutAnswers | None:
    """Return the answers that the run has from before its resume."""
    found = _find_eval(run, LABELS[label], step)
    return None if found is None else HeldOutAnswers.from_dict(found)


def _find_eval(run: Training, label: str, step: int | None) -> Mapping[str, Any] | None:
    """Return what was last stored under a label, at that step if one is given. `Any`: JSON."""
    records = run.reporter.store.list_evals(run.reporter.run.run_id, label=label)
    found = [record for record in records if step is None or record.step == step]
    return found[-1].result if found else None


def _make_reporter(
    prepared: Prepared, store: RunStore, run_id: str, run_dir: Path, listeners: Sequence[RunListener]
) -> Reporter:
    config = prepared.config
    info = RunInfo(
        run_id=run_id,
        name=config.run.name,
        kind=KIND,
        environment=config.data.train.name if config.data.train else "",
        model=prepared.model.name,
        run_dir=run_dir,
    )
    watchers = load_watchers(
        config.run.watchers,
        report=lambda line: store.add_event(run_id, "watcher_failed", data={"line": line}),
    )
    return Reporter(run=info, store=store, watchers=watchers, listeners=listeners)


def _name(prepared: Prepared) -> str:
    train = prepared.config.data.train
    return f"{train.name if train else ''} {prepared.model.name}"
