"""One training run from config to verdict: open, evaluate, train, evaluate again, compare."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from castform.calls import Sampling
from castform.config import RunConfig
from castform.errors import RunFailedError, UsageError
from castform.eval_result import EvalResult
from castform.evaluate import evaluate
from castform.plugins.engines import load_engine_factory
from castform.plugins.events import EvalEnded, RunInfo, RunStarted
from castform.plugins.watchers import load_watchers
from castform.runs import RunStore, hold_run_folder, run_folder
from castform.seeds import derive_seed
from castform.verdict import Verdict, compare
from castform_trainer.engines.contract import Engine
from castform_trainer.gateway.endpoint import GatewayEndpoint
from castform_trainer.gateway.server import Gateway
from castform_trainer.learning.canary import make_canary_ids, save_canary
from castform_trainer.learning.checkpoint import Checkpoint, list_checkpoints
from castform_trainer.learning.ownership import own_run, torch_settings
from castform_trainer.learning.reporter import RunListener
from castform_trainer.learning.stop import StopSwitch
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.canary import Canary, score_with_policy
from castform_trainer.rl.loop import LoopState, Training, save, sync_engine, train_steps
from castform_trainer.rl.policy import Policy
from castform_trainer.rl.preflight import Prepared, check_environment, prepare
from castform_trainer.rl.report import RolloutReporter, eval_scalars
from castform_trainer.rl.rollouts import RolloutSource


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    """How a run ended."""

    run_id: str
    run_dir: Path
    status: str
    """finished or stopped."""
    stopped_by: str | None
    """signal, requested or time; None when all steps were taken."""
    steps: int
    train_seconds: float
    adapter: Path
    """Plain PEFT folder."""
    before: EvalResult | None
    after: EvalResult | None
    verdict: Verdict | None
    """None when the run was stopped before the second evaluation."""


async def train(
    config: RunConfig,
    *,
    store: RunStore,
    run_id: str | None = None,
    run_dir: Path | None = None,
    listeners: Sequence[RunListener] = (),
) -> TrainResult:
    """Start a new run and see it to its end.

    Nothing is kept of a run that cannot start: it is stored when model and engine are open.
    """
    prepared = await prepare(config)
    run_id = run_id or secrets.token_hex(5)
    run_dir = run_dir or run_folder(store.home, run_id)

    def register() -> None:
        store.create_run(
            kind="train",
            name=config.run.name or f"{prepared.environment.id} {prepared.model.name}",
            config=config.model_dump(mode="json"),
            environment=prepared.environment.pin,
            run_id=run_id,
            run_dir=run_dir,
        )

    return await _run(prepared, store, run_id, run_dir, listeners, register=register)


async def resume(
    run_id: str,
    *,
    store: RunStore,
    listeners: Sequence[RunListener] = (),
    change: Callable[[RunConfig], RunConfig] = lambda config: config,
) -> TrainResult:
    """Continue a run from its last checkpoint, with the config it was started with.

    `change` may adjust what leaves the steps so far as they are (run.steps, run.max_seconds).
    Raises UsageError when the run is going on, is no training, has taken all its steps, or its
    environment has changed.
    """
    record = store.find_run(run_id)
    if record.kind != "train" or record.run_dir is None:
        raise UsageError(f"run {record.run_id} is a run of {record.kind}, only training can be resumed")
    if record.status == "running":
        raise UsageError(
            f"run {record.run_id} is still going on (pid {record.pid} on {record.host})",
            hint=f"`castform runs stop {record.run_id}` stops it",
        )
    config = change(RunConfig.model_validate(record.config))
    prepared = await prepare(config)
    check_environment(prepared, record, store)
    done = [checkpoint.step for checkpoint in list_checkpoints(record.run_dir / "checkpoints")]
    if record.status == "finished" and done and done[-1] >= config.run.steps:
        raise UsageError(
            f"run {record.run_id} has finished its {config.run.steps} steps",
            hint=f"`castform train --resume {record.run_id} --steps {2 * config.run.steps}` goes on from there",
        )
    if done and done[-1] > config.run.steps:
        raise UsageError(
            f"run {record.run_id} has taken {done[-1]} steps already, and is to end after {config.run.steps}",
            hint=f"`castform train --resume {record.run_id} --steps {done[-1]}` ends it where it is, "
            "more steps go on",
        )
    store.set_config(record.run_id, config.model_dump(mode="json"))
    store.set_environment(record.run_id, prepared.environment.pin)
    return await _run(prepared, store, record.run_id, record.run_dir, listeners)


async def _run(
    prepared: Prepared,
    store: RunStore,
    run_id: str,
    run_dir: Path,
    listeners: Sequence[RunListener],
    *,
    register: Callable[[], None] | None = None,
) -> TrainResult:
    """Open everything, then own the run. `register` stores a new run; without it one is resumed."""
    config = prepared.config
    is_new_folder = await asyncio.to_thread(lambda: not run_dir.exists())
    stop = StopSwitch()
    async with AsyncExitStack() as stack:
        stack.enter_context(hold_run_folder(run_dir))
        stack.enter_context(
            torch_settings(threads=config.run.threads, deterministic=config.run.deterministic)
        )
        stack.enter_context(stop.on_signals())
        try:
            reporter = _make_reporter(prepared, store, run_id, run_dir, listeners)
            training = await stack.enter_async_context(_open_training(prepared, reporter, stop, run_dir))
            if register is not None:
                register()
        except BaseException:
            if is_new_folder:
                shutil.rmtree(run_dir, ignore_errors=True)
            raise
        state = LoopState(version=1 if config.model.adapter else 0)
        with store.running(run_id):
            return await own_run(
                _train_and_judge(training, prepared, state, resume=register is None),
                reporter=reporter,
                stop=stop,
                steps=lambda: state.step,
            )


def _make_reporter(
    prepared: Prepared, store: RunStore, run_id: str, run_dir: Path, listeners: Sequence[RunListener]
) -> RolloutReporter:
    config = prepared.config
    info = RunInfo(
        run_id=run_id,
        name=config.run.name,
        environment=config.environment.id or prepared.environment.id,
        model=prepared.model.name,
        run_dir=run_dir,
    )
    watchers = load_watchers(
        config.run.watchers,
        report=lambda line: store.add_event(run_id, "watcher_failed", data={"line": line}),
    )
    return RolloutReporter(
        run=info, store=store, watchers=watchers, listeners=listeners, calls_path=_next_calls_path(run_dir)
    )


async def _train_and_judge(
    run: Training, prepared: Prepared, state: LoopState, *, resume: bool
) -> TrainResult:
    """The whole run, on parts that are open."""
    checkpoint = _restore(run, state) if resume else None
    run.reporter.tell(
        RunStarted(
            steps=run.config.run.steps, start_step=state.step, config=run.config.model_dump(mode="json")
        )
    )
    if state.version:
        await sync_engine(run, state.version, step=state.step)
    before = _stored_eval(run, "before") if checkpoint else None
    if before is None:
        before = await run_eval(run, prepared, "before", state)
        if before is not None and not run.stop.reason:
            await save(run, state)
    if before is not None:
        _check_some_scored(before)
        await train_steps(run, state)
        await save(run, state)
    adapter = await asyncio.to_thread(_save_result, run)
    after = verdict = None
    if before is not None and run.stop.reason in (None, "time"):
        after = await run_eval(run, prepared, "after", state)
    if before is not None and after is not None:
        verdict = compare(before, after, seed=run.config.run.seed)
        run.reporter.store.add_eval(
            run.reporter.run.run_id, "verdict", step=state.step, result=verdict.as_dict()
        )
    return TrainResult(
        run_id=run.reporter.run.run_id,
        run_dir=run.run_dir,
        status="finished" if verdict is not None else "stopped",
        stopped_by=run.stop.reason,
        steps=state.step,
        train_seconds=state.train_seconds,
        adapter=adapter,
        before=before,
        after=after,
        verdict=verdict,
    )


def _check_some_scored(before: EvalResult) -> None:
    """Raise RunFailedError when nothing was scored: training would not be, and no verdict could follow."""
    if before.score() is None:
        error = next((rollout.error for rollout in before.rollouts if rollout.error), "no error text")
        reasons = ", ".join(f"{count} {reason}" for reason, count in before.failures.items())
        raise RunFailedError(
            f"none of {len(before.rollouts)} held-out rollouts was scored ({reasons}): {error}",
            hint="`castform validate` looks for the cause",
        )


async def run_eval(run: Training, prepared: Prepared, label: str, state: LoopState) -> EvalResult | None:
    """Evaluate the engine's current version on the held-out examples; None when the run is to stop."""
    section = run.config.eval
    step = state.step
    result = await run.stop.guard(
        evaluate(
            prepared.environment.environment,
            prepared.eval_examples,
            endpoint=run.source.endpoint,
            samples=section.samples,
            sampling=Sampling(
                max_new_tokens=run.config.sampling.max_new_tokens, temperature=section.temperature
            ),
            seed=run.config.run.seed,
            name=f"eval-{label}-{step}",
            weights=run.config.environment.weights,
            concurrency=run.config.rl.max_concurrent_rollouts,
            enforce_sampling=True,
            max_context_tokens=run.config.sampling.max_context_tokens,
            version=state.version,
            timeout_seconds=run.config.rl.rollout_timeout_seconds,
            record=lambda groups: run.reporter.keep_eval(groups, step=step),
        )
    )
    if result is None:
        return None
    run.reporter.store.add_eval(run.reporter.run.run_id, label, step=step, result=result.as_dict())
    run.reporter.tell(EvalEnded(step=step, scalars=eval_scalars(result)))
    return result


@asynccontextmanager
async def _open_training(
    prepared: Prepared, reporter: RolloutReporter, stop: StopSwitch, run_dir: Path
) -> AsyncIterator[Training]:
    """Load the model twice, once to sample and once to train, and put the gateway before the first."""
    config, model, tokenizer = prepared.config, prepared.model, prepared.tokenizer
    async with AsyncExitStack() as stack:
        stack.push_async_callback(prepared.environment.environment.aclose)
        make_engine = load_engine_factory(config.engine.name)
        engine: Engine = await asyncio.to_thread(make_engine, config, model)
        stack.push_async_callback(engine.close)
        log_path = run_dir / (reporter.calls_path or "")
        gateway = Gateway(engine, tokenizer, log_path=log_path, model_name=model.name).start()
        endpoint = GatewayEndpoint(gateway)
        stack.push_async_callback(endpoint.aclose)
        base = await asyncio.to_thread(load_causal_lm, model.path, dtype=model.dtype, device=model.device)
        policy = Policy(
            base,
            lora=config.lora,
            optimizer=config.optimizer,
            temperature=config.sampling.temperature,
            seed=derive_seed(config.run.seed, "lora"),
            total_updates=config.run.steps * config.rl.minibatches,
            adapter=config.model.adapter,
        )

        async def after_step(state: LoopState) -> None:
            every = config.eval.every
            if every and state.step % every == 0 and state.step < config.run.steps:
                await run_eval(training, prepared, "step", state)

        training = Training(
            config=config,
            source=RolloutSource(
                environment=prepared.environment.environment,
                examples=prepared.train_examples,
                endpoint=endpoint,
                config=config,
            ),
            policy=policy,
            engine=engine,
            canary=Canary(make_canary_ids(tokenizer), policy, dtype=model.dtype),
            reporter=reporter,
            stop=stop,
            run_dir=run_dir,
            after_step=after_step,
        )
        await training.canary.check(engine, version=0)
        yield training


def _restore(run: Training, state: LoopState) -> Checkpoint | None:
    """Put policy and state where the last checkpoint was and forget what was stored after it."""
    checkpoints = list_checkpoints(run.run_dir / "checkpoints")
    checkpoint = checkpoints[-1] if checkpoints else None
    store, run_id = run.reporter.store, run.reporter.run.run_id
    store.truncate_after_step(run_id, checkpoint.step if checkpoint else -1)
    if checkpoint is not None:
        run.policy.load_state(checkpoint.load_tensors())
        restored = LoopState.from_dict(dict(checkpoint.counters))
        for name in LoopState.__slots__:
            setattr(state, name, getattr(restored, name))
    return checkpoint


def _stored_eval(run: Training, label: str) -> EvalResult | None:
    records = run.reporter.store.list_evals(run.reporter.run.run_id, label=label)
    return EvalResult.from_dict(records[-1].result) if records else None


def _save_result(run: Training) -> Path:
    """Write run_dir/adapter and run_dir/canary.json, each whole or not at all."""
    adapter = run.run_dir / "adapter"
    partial, canary = run.run_dir / ".adapter", run.run_dir / ".canary.json"
    logprobs = score_with_policy(run.policy, run.canary.ids)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        run.policy.save_adapter(partial)
        save_canary(canary, run.canary.ids, logprobs)
        shutil.rmtree(adapter, ignore_errors=True)
        partial.rename(adapter)
        canary.rename(run.run_dir / "canary.json")
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        canary.unlink(missing_ok=True)
        raise RunFailedError(
            f"cannot write the adapter {adapter}: {error.strerror or error}",
            hint="free some space, then `castform train --resume`; the last checkpoint is whole",
        ) from error
    return adapter


def _next_calls_path(run_dir: Path) -> str:
    """Return the call log of this process, relative to the run folder: one log a start of the run."""
    number = len(list((run_dir / "calls").glob("*.jsonl")))
    return f"calls/{number:03d}.jsonl"
