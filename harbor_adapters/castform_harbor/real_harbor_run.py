"""Run tasks by the real harbor, as a process of its own that may die in any way.

Its exit code is not believed: what counts is each trial's result.json. A task that takes its
batch down with it is found by running each one that did not finish again, alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from castform.errors import CastformError, UsageError
from castform.sandbox.teardown import finish
from castform_harbor.real_harbor import RealHarbor, find_real_harbor
from castform_harbor.real_harbor_results import RealTrial, read_job
from castform_harbor.task import HarborTask, load_task
from castform_harbor.templates import list_template_variables

ENVIRONMENT = "castform_docker:DockerCli"
"""Needs the docker command alone. `docker` is Harbor's own, which needs the Compose plugin."""
LABEL = "castform.real-harbor"
LABEL_VARIABLE = "CASTFORM_HARBOR_LABEL"
INSIDE = Path(__file__).parent / "inside_harbor"
STOP_GRACE_SECONDS = 60.0
"""From the one SIGTERM, on which Harbor stops its boxes, to SIGKILL."""
DOCKER_SECONDS = 60.0
"""For one command that clears up: an engine that hangs keeps nobody waiting."""
LOG_FILE = "harbor.log"
MAX_LOG_TAIL = 2000
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "DOCKER_HOST", "DOCKER_CONFIG", "SSL_CERT_FILE")


@dataclass(frozen=True, kw_only=True, slots=True)
class RealJob:
    """What to run."""

    tasks: Sequence[Path]
    agent: Mapping[str, Any] = field(default_factory=lambda: {"name": "oracle"}, repr=False)
    """Harbor's AgentConfig, by field. Any: JSON."""
    environment: Mapping[str, Any] = field(default_factory=lambda: {"import_path": ENVIRONMENT})
    verifier: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 2
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of harbor's process: keys of services, values for `${VAR}` in tasks."""
    timeout_seconds: float | None = None
    """For the whole job, with the tasks that are run again alone; what has finished by then is kept."""
    timeout_multiplier: float = 1.0
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of Harbor's JobConfig."""


async def run_real_harbor(job: RealJob, out: Path, *, harbor: RealHarbor | None = None) -> list[RealTrial]:
    """Run every task once and return a trial for each, in the order of the tasks.

    `out` gets a folder of its own for each call. UsageError: no tasks. A task that cannot be read
    is a trial with a `problem`, and never reaches Harbor, where it would end the whole batch.
    """
    if not job.tasks:
        raise UsageError("there are no tasks to run")
    harbor = harbor or find_real_harbor()
    folder = await asyncio.to_thread(_make_folder, out)
    env = make_environment(job, "", os.environ)
    faults = {task: fault for task in job.tasks if (fault := await asyncio.to_thread(_find_fault, task, env))}
    sound = [task for task in job.tasks if task not in faults]
    found: dict[Path, RealTrial] = {}
    now = asyncio.get_running_loop().time
    end = None if job.timeout_seconds is None else now() + job.timeout_seconds
    if sound:
        found = await _run_batch(job, sound, folder / "all", harbor, end)
        unfinished = [task for task in sound if not found[task].is_finished] if len(sound) > 1 else []
        slots = asyncio.Semaphore(job.concurrency)

        async def run_alone(task: Path, number: int) -> None:
            async with slots:
                if end is None or now() < end:
                    found.update(await _run_batch(job, [task], folder / f"alone-{number}", harbor, end))

        async with asyncio.TaskGroup() as group:
            for number, task in enumerate(unfinished):
                group.create_task(run_alone(task, number))
    return [
        RealTrial(task=task, problem=faults[task]) if task in faults else found[task] for task in job.tasks
    ]


async def _run_batch(
    job: RealJob, tasks: Sequence[Path], folder: Path, harbor: RealHarbor, end: float | None
) -> dict[Path, RealTrial]:
    """Return a trial for each task. `end`: of the whole job, on the event loop's clock."""
    label = uuid.uuid4().hex
    name = f"job-{label[:12]}"
    try:
        ending = await _run_process(job, tasks, folder, name, label, harbor, end)
    finally:
        await finish(remove_containers(label))
    by_task = await asyncio.to_thread(read_job, folder / name, tasks)
    none = {task: RealTrial(task=task, problem=f"harbor left no trial ({ending})") for task in tasks}
    return {task: (by_task[task.resolve()] or [none[task]])[-1] for task in tasks}


async def _run_process(
    job: RealJob,
    tasks: Sequence[Path],
    folder: Path,
    name: str,
    label: str,
    harbor: RealHarbor,
    end: float | None,
) -> str:
    """Run one `harbor run` to its end, or stop it; say how it ended."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="castform-harbor-") as private:
        config = Path(private) / "job.json"
        await asyncio.to_thread(_write_private, config, make_job_config(job, tasks, folder, name))
        with (folder / LOG_FILE).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                harbor.command,
                "run",
                "--config",
                config,
                "--quiet",
                "--yes",
                env=make_environment(job, label, os.environ),
                cwd=folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout_at(end):
                await process.wait()
        except TimeoutError:
            return f"the job took longer than {job.timeout_seconds:g} s"
        finally:
            await finish(_stop(process))
    tail = await asyncio.to_thread(_read_tail, folder / LOG_FILE)
    return f"exit code {process.returncode}: {tail}"


def make_job_config(job: RealJob, tasks: Sequence[Path], folder: Path, name: str) -> dict[str, Any]:
    """Return Harbor's JobConfig as JSON values."""
    return {
        **job.more,
        "job_name": name,
        "jobs_dir": str(folder),
        "n_concurrent_trials": job.concurrency,
        "quiet": True,
        "timeout_multiplier": job.timeout_multiplier,
        "agents": [dict(job.agent)],
        "environment": dict(job.environment),
        "verifier": dict(job.verifier),
        "tasks": [{"path": str(task.resolve())} for task in tasks],
        "retry": {"max_retries": 0},
    }


def make_environment(job: RealJob, label: str, host: Mapping[str, str]) -> dict[str, str]:
    """Return what harbor's process sees: little of this one's environment, and nothing that phones home."""
    return {
        **{name: host[name] for name in _PASSED_ON if name in host},
        "HARBOR_TELEMETRY": "off",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "PYTHONPATH": str(INSIDE),
        "PYTHONDONTWRITEBYTECODE": "1",
        LABEL_VARIABLE: label,
        **job.env,
    }


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End harbor, unless it ended by itself: one SIGTERM, since a second would make it leave its boxes
    behind, then SIGKILL."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            pass
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def remove_containers(label: str) -> list[str]:
    """Remove the containers that a killed harbor left, by this job's label; return their ids."""
    listed = await _docker("ps", "--all", "--quiet", "--filter", f"label={LABEL}={label}")
    ids = listed.split()
    if ids:
        await _docker("rm", "--force", "--volumes", *ids)
    return ids


async def _docker(*words: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            "docker",
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except FileNotFoundError:
        return ""
    try:
        async with asyncio.timeout(DOCKER_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode("utf-8", "replace")


def _make_folder(out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="harbor-", dir=out.resolve()))


def _write_private(path: Path, value: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)


def _read_tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - MAX_LOG_TAIL))
        return file.read().decode("utf-8", "replace").strip()


def _find_fault(folder: Path, env: Mapping[str, str]) -> str | None:
    """Return why a task cannot be given to harbor; in a batch it would end the others too."""
    try:
        task = load_task(folder)
    except CastformError as error:
        return str(error)
    missing = sorted(name for name, needed in list_host_variables(task).items() if needed and name not in env)
    return f"it takes {', '.join(missing)} from the environment, where it is not set" if missing else None


def list_host_variables(task: HarborTask) -> dict[str, bool]:
    """Return the variables that a task takes from this machine (`${VAR}`), and whether each has to be set."""
    config = task.config
    verifiers = [config.verifier, *(step.verifier for step in config.steps)]
    places = [config.environment.env, config.solution_env, *(each.env for each in verifiers)]
    places += [each.environment.env for each in verifiers if each.environment is not None]
    found: dict[str, bool] = {}
    for place in places:
        for name, needed in list_template_variables(place).items():
            found[name] = found.get(name, False) or needed
    return found
