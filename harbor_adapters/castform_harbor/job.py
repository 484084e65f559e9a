"""Many trials: tasks times attempts, some at a time, in one job folder that `harbor view` reads.

A job that is run again runs what has no reward yet, and nothing else. One task that cannot be run
costs the others nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

from castform.errors import CastformError, RunFailedError, UsageError
from castform.harness.contract import Harness
from castform.sandbox.contract import Capabilities, ModelEndpoint, SandboxProvider
from castform_harbor.job_config import check_same_job, make_job_config
from castform_harbor.job_result import make_job_result
from castform_harbor.job_types import Job, JobTrial, OpenModel, OpenModels
from castform_harbor.output import CONFIG_FILE, RESULT_FILE, TrialLog, now, read_json, write_json
from castform_harbor.rewards import needs_rerun
from castform_harbor.task import HarborTask
from castform_harbor.trial import run_trial
from castform_harbor.trial_plan import check_trial
from castform_harbor.trial_types import TrialOutcome

__all__ = ["Job", "JobTrial", "OpenModel", "OpenModels", "hold_job", "list_trials", "run_job"]

JOB_LOG_FILE = "job.log"
UNSCORED_DIR = "unscored"
"""Where the folders of trials lie that were run again."""
_LONGEST_NAME = 64
"""Bytes of a task's name in that of its trials."""

Wanted = tuple[HarborTask, int, str]
"""Task, attempt and folder name of a trial."""


async def run_job(
    job: Job,
    *,
    harness: Harness,
    provider: SandboxProvider,
    open_models: OpenModels | None = None,
    on_trial: Callable[[JobTrial], None] = lambda _: None,
    on_phase: Callable[[str, str], None] = lambda name, phase: None,
) -> list[JobTrial]:
    """Run every trial that has no reward yet and return all, in the order of tasks and attempts.

    Tasks that cannot be run here are told first of all; where there is nothing to run, no model is
    made ready. `on_trial` is told of each trial as it ends, `on_phase` of each one's name and what
    begins in it.

    UsageError when the folder holds another job, or another process runs this one; RunFailedError
    when its result cannot be written. Cancelled: every box is closed, and what was finished counts.
    """
    capabilities = await provider.check()
    with hold_job(job.folder):
        config = make_job_config(job, harness)
        check_same_job(job, config)
        _write(job.folder / CONFIG_FILE, config)
        running = _Running(job, harness, provider, capabilities, on_trial, on_phase)
        running.settle_known()
        try:
            await running.run_rest(open_models or _no_models)
        except asyncio.CancelledError:
            with contextlib.suppress(RunFailedError):
                running.write_result(None)
            raise
        running.write_result(now())
        return running.list_ended()


class _Running:
    """What is going on in one job."""

    def __init__(
        self,
        job: Job,
        harness: Harness,
        provider: SandboxProvider,
        capabilities: Capabilities,
        on_trial: Callable[[JobTrial], None],
        on_phase: Callable[[str, str], None],
    ) -> None:
        self._job = job
        self._harness = harness
        self._provider = provider
        self._capabilities = capabilities
        self._on_trial = on_trial
        self._on_phase = on_phase
        self._wanted = list_trials(job)
        self._started: datetime = now()
        self._done: dict[str, JobTrial] = {}
        self._open: set[str] = set()
        self._gate = asyncio.Semaphore(job.concurrency)
        self._log = TrialLog(job.folder / JOB_LOG_FILE)
        self._note(f"{len(self._wanted)} trials of {len(job.tasks)} tasks with {job.agent} in {job.sandbox}")

    def settle_known(self) -> None:
        """Take what was run before and has a reward, and refuse what cannot be run here.

        UsageError: a task has changed since. RunFailedError: the result cannot be written.
        """
        kept = {
            name: read_trial(self._job.folder / name, task, attempt) for task, attempt, name in self._wanted
        }
        refused = {task.folder: self._find_refusal(task) for task in self._job.tasks}
        for task, attempt, name in self._wanted:
            trial, reason = kept[name], refused[task.folder]
            if trial is None and reason is not None:
                trial = JobTrial(task=task.name, attempt=attempt, name=name, status="refused", error=reason)
            if trial is not None:
                self._end(trial)
        self.write_result(None)

    async def run_rest(self, open_models: OpenModels) -> None:
        """Run the others, as many at a time as the job says."""
        rest = [wanted for wanted in self._wanted if wanted[2] not in self._done]
        if not rest:
            return
        async with open_models() as open_model, asyncio.TaskGroup() as group:
            for wanted in rest:
                group.create_task(self._run_one(wanted, open_model or _no_model))

    def list_ended(self) -> list[JobTrial]:
        return [self._done[name] for _, _, name in self._wanted]

    def write_result(self, finished: datetime | None) -> None:
        """Write result.json. RunFailedError when that fails."""
        result = make_job_result(
            self._job,
            self._done.values(),
            running=len(self._open),
            started=self._started,
            finished=finished,
        )
        _write(self._job.folder / RESULT_FILE, result)

    async def _run_one(self, wanted: Wanted, open_model: OpenModel) -> None:
        task, attempt, name = wanted
        async with self._gate:
            self._open.add(name)
            try:
                trial = await self._try(task, attempt, name, open_model)
            except asyncio.CancelledError:
                self._done[name] = JobTrial(task=task.name, attempt=attempt, name=name, status="cancelled")
                self._note(f"{name}: cancelled")
                raise
            finally:
                self._open.discard(name)
        self._end(trial)
        with contextlib.suppress(RunFailedError):  # told at the end; the other trials go on
            self.write_result(None)

    async def _try(self, task: HarborTask, attempt: int, name: str, open_model: OpenModel) -> JobTrial:
        status = "infra_error"
        try:
            put_away(self._job.folder, name)
            async with open_model(name) as endpoint:
                outcome = await run_trial(
                    task,
                    harness=self._harness,
                    provider=self._provider,
                    trials_dir=self._job.folder,
                    trial_name=name,
                    endpoint=endpoint,
                    options=self._job.options,
                    capabilities=self._capabilities,
                    on_phase=partial(self._on_phase, name),
                )
                return _from_outcome(outcome, attempt)
        except UsageError as error:
            status, said = "refused", str(error)
        except (CastformError, OSError) as error:
            hint = error.hint if isinstance(error, CastformError) else None
            said = f"{error} ({hint})" if hint else str(error)
        return JobTrial(task=task.name, attempt=attempt, name=name, status=status, error=said)

    def _end(self, trial: JobTrial) -> None:
        self._done[trial.name] = trial
        rewards = "no reward" if trial.rewards is None else dict(trial.rewards)
        self._note(f"{trial.name}: {trial.status}{' before' if trial.kept else ''}, {rewards}")
        self._on_trial(trial)

    def _find_refusal(self, task: HarborTask) -> str | None:
        try:
            check_trial(
                task, harness=self._harness, options=self._job.options, capabilities=self._capabilities
            )
        except UsageError as error:
            return str(error)
        return None

    def _note(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a full disk is told by what is written at the end
            self._log.write(text)


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
async def _no_models() -> AsyncIterator[OpenModel | None]:
    yield None


@asynccontextmanager
async def _no_model(name: str) -> AsyncIterator[ModelEndpoint | None]:
    yield None


def list_trials(job: Job) -> list[Wanted]:
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


def _write(file: Path, document: dict[str, object]) -> None:
    try:
        write_json(file, document)
    except OSError as error:
        raise RunFailedError(
            f"{file} cannot be written: {error.strerror}",
            hint="the same words with this --job-name run what has no reward yet",
        ) from error
