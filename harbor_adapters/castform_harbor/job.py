"""Many trials: tasks times attempts, some at a time, in one job folder that `harbor view` reads.

A job that is run again runs what has no reward yet, and nothing else. One task that cannot be run
costs the others nothing.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from castform.errors import CastformError, UsageError
from castform.harness.contract import Harness
from castform.sandbox.contract import Capabilities, ModelEndpoint, SandboxProvider
from castform_harbor.output import CONFIG_FILE, RESULT_FILE, TrialLog, now, read_json, stamp, write_json
from castform_harbor.rewards import MAIN_REWARD, needs_rerun
from castform_harbor.task import HarborTask
from castform_harbor.trial import run_trial
from castform_harbor.trial_types import TrialOptions, TrialOutcome

JOB_LOG_FILE = "job.log"
OPTIONS = "castform_options"
"""Where a job's config.json has how its trials are run."""
UNSCORED_DIR = "unscored"
"""Where the folders of trials lie that were run again."""
_LONGEST_NAME = 64
"""Bytes of a task's name in that of its trials."""

OpenModel = Callable[[str], AbstractAsyncContextManager[ModelEndpoint | None]]
"""From a trial's name to the model of that trial."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is to be run."""

    tasks: Sequence[HarborTask]
    folder: Path
    agent: str
    model: str | None = None
    sandbox: str = "docker"
    source: str = ""
    """Where the tasks come from, for the record."""
    attempts: int = 1
    concurrency: int = 4
    options: TrialOptions = field(default_factory=TrialOptions)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTrial:
    """One attempt, run now or before."""

    task: str
    attempt: int
    name: str
    status: str
    """A trial's, or `refused`: the task asks for what these sandboxes do not have."""
    rewards: Mapping[str, float] | None = None
    error: str | None = None
    seconds: float | None = None
    warnings: tuple[str, ...] = ()
    kept: bool = False
    """Whether it was there already, with a reward."""
    folder: Path | None = None

    @property
    def reward(self) -> float | None:
        rewards = self.rewards or {}
        if MAIN_REWARD in rewards:
            return rewards[MAIN_REWARD]
        return next(iter(rewards.values())) if len(rewards) == 1 else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "attempt": self.attempt,
            "trial": self.name,
            "status": self.status,
            "rewards": None if self.rewards is None else dict(self.rewards),
            "reward": self.reward,
            "error": self.error,
            "seconds": self.seconds,
            "warnings": list(self.warnings),
            "kept": self.kept,
            "folder": None if self.folder is None else str(self.folder),
        }


async def run_job(
    job: Job,
    *,
    harness: Harness,
    provider: SandboxProvider,
    open_model: OpenModel | None = None,
    on_trial: Callable[[JobTrial], None] = lambda _: None,
    on_phase: Callable[[str, str], None] = lambda name, phase: None,
) -> list[JobTrial]:
    """Run every trial that has no reward yet and return all, in the order of tasks and attempts.

    `on_trial` is told of each as it ends, `on_phase` of each trial's name and what begins in it.

    UsageError when the folder holds another job, or another process runs this one. Cancelled: every
    box is closed, and what was finished counts.
    """
    capabilities = await provider.check()
    with hold_job(job.folder):
        check_same_job(job)
        write_json(job.folder / CONFIG_FILE, make_job_config(job))
        wanted = list_trials(job)
        started = now()
        gate = asyncio.Semaphore(job.concurrency)
        done: dict[str, JobTrial] = {}
        log = TrialLog(job.folder / JOB_LOG_FILE)
        log.write(f"{len(wanted)} trials of {len(job.tasks)} tasks with {job.agent} in {job.sandbox}")

        async def run_one(task: HarborTask, attempt: int, name: str) -> None:
            async with gate:
                trial = await _run_one(
                    job,
                    task,
                    attempt,
                    name,
                    harness,
                    provider,
                    capabilities,
                    open_model,
                    partial(on_phase, name),
                )
            done[name] = trial
            log.write(
                f"{name}: {trial.status}, {'no reward' if trial.rewards is None else dict(trial.rewards)}"
            )
            on_trial(trial)
            _write_result(job, started, done, finished=None)

        for task, attempt, name in wanted:
            kept = read_trial(job.folder / name, task, attempt)
            if kept is not None:
                done[name] = kept
                on_trial(kept)
        try:
            async with asyncio.TaskGroup() as group:
                for task, attempt, name in wanted:
                    if name not in done:
                        group.create_task(run_one(task, attempt, name))
        finally:
            _write_result(job, started, done, finished=now())
        return [done[name] for _, _, name in wanted]


async def _run_one(
    job: Job,
    task: HarborTask,
    attempt: int,
    name: str,
    harness: Harness,
    provider: SandboxProvider,
    capabilities: Capabilities,
    open_model: OpenModel | None,
    on_phase: Callable[[str], None],
) -> JobTrial:
    put_away(job.folder, name)
    try:
        async with (open_model or _no_model)(name) as endpoint:
            outcome = await run_trial(
                task,
                harness=harness,
                provider=provider,
                trials_dir=job.folder,
                trial_name=name,
                endpoint=endpoint,
                options=job.options,
                capabilities=capabilities,
                on_phase=on_phase,
            )
    except UsageError as error:
        return JobTrial(task=task.name, attempt=attempt, name=name, status="refused", error=str(error))
    except (CastformError, OSError) as error:
        said = f"{error} ({error.hint})" if isinstance(error, CastformError) and error.hint else str(error)
        return JobTrial(task=task.name, attempt=attempt, name=name, status="infra_error", error=said)
    return _from_outcome(outcome, attempt)


def _from_outcome(outcome: TrialOutcome, attempt: int) -> JobTrial:
    return JobTrial(
        task=outcome.task_name,
        attempt=attempt,
        name=outcome.trial_name,
        status=outcome.status,
        rewards=outcome.rewards,
        error=outcome.error,
        seconds=outcome.seconds.get("total"),
        warnings=outcome.warnings,
        folder=outcome.trial_dir,
    )


@asynccontextmanager
async def _no_model(name: str) -> AsyncIterator[ModelEndpoint | None]:
    yield None


def list_trials(job: Job) -> list[tuple[HarborTask, int, str]]:
    """Return task, attempt and folder name of every trial; the names are the same every time."""
    found = []
    taken: set[str] = set()
    for task in job.tasks:
        base = _cut(task.folder.name)
        while base in taken:
            base += "_"
        taken.add(base)
        found += [(task, attempt, f"{base}__{attempt}") for attempt in range(1, job.attempts + 1)]
    return found


def _cut(name: str) -> str:
    """Return as much of a name as leaves a folder's name short enough, whatever alphabet it is in."""
    return name.encode()[:_LONGEST_NAME].decode("utf-8", "ignore")


def read_trial(folder: Path, task: HarborTask, attempt: int) -> JobTrial | None:
    """Return a trial that was run before and has a reward; None where it has to be run.

    A result that is missing, empty or truncated is none. UsageError when the task has changed since.
    """
    result = read_json(folder / RESULT_FILE)
    if result is None:
        return None
    verdict, own = result.get("verifier_result"), result.get("castform")
    rewards = verdict.get("rewards") if isinstance(verdict, dict) else None
    if needs_rerun(rewards) or not isinstance(rewards, dict) or not rewards or not isinstance(own, dict):
        return None
    if own.get("task_digest") != task.digest:
        raise UsageError(
            f"{folder} holds a result of an earlier {task.name}: its files have changed since",
            hint="run it under another --job-name",
        )
    return JobTrial(
        task=task.name,
        attempt=attempt,
        name=folder.name,
        status=str(own.get("status", "ok")),
        rewards=rewards,
        error=own.get("error"),
        warnings=tuple(own.get("warnings", ())),
        kept=True,
        folder=folder,
    )


def put_away(folder: Path, name: str) -> None:
    """Move an earlier folder of a trial aside: what it says of the failure stays."""
    earlier = folder / name
    if not earlier.exists():
        return
    target = folder / UNSCORED_DIR / f"{name}-{uuid.uuid4().hex[:8]}"
    target.parent.mkdir(exist_ok=True)
    earlier.rename(target)


def check_same_job(job: Job) -> None:
    """Raise UsageError where the folder holds trials of another agent, model or sandbox, or run otherwise."""
    known = read_json(job.folder / CONFIG_FILE) or {}
    wanted = json.loads(json.dumps(make_job_config(job)))
    differences = []
    if known.get("agents", wanted["agents"]) != wanted["agents"]:
        differences.append(f"another agent or model: {known['agents']}")
    if known.get("environment", wanted["environment"]) != wanted["environment"]:
        differences.append(f"another sandbox: {known['environment']}")
    before, after = known.get(OPTIONS), wanted[OPTIONS]
    if isinstance(before, dict):  # else the job was begun by what did not write them
        differences += [
            f"{name} = {before.get(name)!r}, not {after.get(name)!r}"
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        ]
    if differences:
        raise UsageError(
            f"{job.folder} holds the trials of {'; '.join(differences)}",
            hint="give this one another --job-name",
        )


@contextmanager
def hold_job(folder: Path) -> Iterator[None]:
    """Keep every other process from running a job in this folder."""
    handle = _open_lock(folder)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{folder} is being run by another process", hint="wait for it, or give another --job-name"
            ) from error
        yield
    finally:
        os.close(handle)


def _open_lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(f"{folder} cannot hold a job: {error.strerror}") from error


def make_job_config(job: Job) -> dict[str, Any]:
    """Return the job's config.json, as Harbor's viewer reads it."""
    return {
        "job_name": job.folder.name,
        "jobs_dir": str(job.folder.parent),
        "n_attempts": job.attempts,
        "n_concurrent_trials": job.concurrency,
        "agents": [{"name": job.agent, "model_name": job.model}],
        "environment": {"type": "docker"}
        if job.sandbox == "docker"
        else {"import_path": f"castform.sandbox:{job.sandbox}"},
        "tasks": [{"path": str(task.folder)} for task in job.tasks],
        "datasets": [],
        OPTIONS: describe_options(job.options),
    }


def describe_options(options: TrialOptions) -> dict[str, Any]:
    """Return what a trial's outcome depends on, as plain data; of variables the names, as values may be secret."""
    found: dict[str, Any] = {}
    for item in fields(options):
        value = getattr(options, item.name)
        if item.name in ("agent_env", "verifier_env"):
            found[item.name] = sorted(value)
        elif item.name == "artifacts":
            found[item.name] = [asdict(artifact) for artifact in value]
        elif item.name == "limits":
            found[item.name] = asdict(options.limits)
        elif item.name != "host_env":
            found[item.name] = value
    return found


def _write_result(
    job: Job, started: datetime, done: Mapping[str, JobTrial], *, finished: datetime | None
) -> None:
    trials = list(done.values())
    total = len(job.tasks) * job.attempts
    statuses = [trial.status for trial in trials]
    cancelled = statuses.count("cancelled")
    key = "__".join(part for part in (job.agent, job.model, Path(job.source).name or "adhoc") if part)
    rewards: dict[str, dict[str, list[str]]] = {}
    for trial in trials:
        for name, value in (trial.rewards or {}).items():
            rewards.setdefault(name, {}).setdefault(str(value), []).append(trial.name)
    unscored = [trial.name for trial in trials if trial.rewards is None]
    write_json(
        job.folder / RESULT_FILE,
        {
            "schema_version": 1,
            "id": str(uuid.uuid5(uuid.NAMESPACE_URL, job.folder.resolve().as_uri())),
            "started_at": stamp(started),
            "updated_at": stamp(now()),
            "finished_at": stamp(finished),
            "n_total_trials": total,
            "stats": {
                "n_completed_trials": len(trials) - cancelled,
                "n_errored_trials": len(unscored),
                "n_running_trials": 0,
                "n_pending_trials": total - len(trials),
                "n_cancelled_trials": cancelled,
                "n_retries": 0,
                "evals": {
                    key: {
                        "n_trials": len(trials) - len(unscored),
                        "n_errors": len(unscored),
                        "reward_stats": rewards,
                        "exception_stats": {
                            status: [trial.name for trial in trials if trial.status == status]
                            for status in dict.fromkeys(statuses)
                            if status != "ok"
                        },
                    }
                },
            },
        },
    )
