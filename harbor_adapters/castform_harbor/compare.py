"""The same tasks by two runners: castform's own, and the real harbor."""

from __future__ import annotations

import asyncio
import fnmatch
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from castform.errors import CastformError, UsageError
from castform.sandbox import load_provider
from castform.sandbox.contract import Capabilities, SandboxProvider
from castform_harbor.real_harbor import RealHarbor
from castform_harbor.real_harbor_results import RealTrial
from castform_harbor.real_harbor_run import ENVIRONMENT, RealJob, list_host_variables, run_real_harbor
from castform_harbor.reference_agents import make_reference_agent
from castform_harbor.task import HarborTask
from castform_harbor.tasks import load_tasks
from castform_harbor.trial import run_trial


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One task with one agent."""

    task: str
    agent: str
    own: Mapping[str, float] | None
    """None: castform's runner gave no reward."""
    real: Mapping[str, float] | None
    own_error: str | None = None
    real_error: str | None = None

    @property
    def is_same(self) -> bool:
        """Whether both gave the same rewards. Two without a reward are not called the same."""
        if self.own is None or self.real is None or self.own.keys() != self.real.keys():
            return False
        return all(math.isclose(value, self.real[name], abs_tol=1e-9) for name, value in self.own.items())

    @property
    def verdict(self) -> Literal["same", "different", "neither"]:
        """`neither`: no runner has a reward, for reasons that may be one and the same, or not."""
        if self.own is None and self.real is None:
            return "neither"
        return "same" if self.is_same else "different"

    def describe(self) -> str:
        """Return what each said where they differ."""
        own = f"castform {dict(self.own)}" if self.own is not None else f"castform none ({self.own_error})"
        real = f"harbor {dict(self.real)}" if self.real is not None else f"harbor none ({self.real_error})"
        return f"{own}, {real}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "agent": self.agent,
            "castform": self.own,
            "harbor": self.real,
            "same": self.is_same,
            "verdict": self.verdict,
            "castform_error": self.own_error,
            "harbor_error": self.real_error,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class _Own:
    """What a trial of castform's came to."""

    rewards: Mapping[str, float] | None
    error: str | None


async def compare_runners(
    source: Path,
    *,
    agents: Sequence[str],
    jobs_dir: Path,
    harbor: RealHarbor,
    sandbox: str = "docker",
    concurrency: int = 2,
    compose: bool = False,
    dataset: str | None = None,
    patterns: Sequence[str] = (),
    on_progress: Callable[[str], None] = lambda _: None,
) -> list[Compared]:
    """Run every task of a source with each agent by both runners, one runner after the other.

    `dataset`: which one of a registry.json. `patterns`: only tasks whose folder's name matches one of
    them. `on_progress` is told, in a few words, what begins and what each of castform's trials came
    to. A task that one of the runners cannot run is a row without a reward on that side. Raises
    UsageError for tasks that are not whole or a pattern that no task matches, and what the sandbox lacks.
    """
    tasks = choose_tasks(load_tasks(source, dataset=dataset), patterns)
    folder = jobs_dir / f"compare-{secrets.token_hex(4)}"
    own = await _run_own(tasks, agents, folder / "castform", sandbox, concurrency, on_progress)
    environment = {"type": "docker"} if compose else {"import_path": ENVIRONMENT}
    rows = []
    for agent in agents:
        on_progress(f"harbor: {len(tasks)} tasks with {agent}")
        job = RealJob(
            tasks=[task.folder for task in tasks],
            agent={"name": agent},
            concurrency=concurrency,
            environment=environment,
            env=find_host_values(tasks, os.environ),
        )
        real = await run_real_harbor(job, folder / "harbor", harbor=harbor)
        rows += [_compare(task, agent, own[agent, place], real[place]) for place, task in enumerate(tasks)]
    return rows


def choose_tasks(tasks: Sequence[HarborTask], patterns: Sequence[str]) -> list[HarborTask]:
    """Return the tasks whose folder's name matches a pattern; all where there is none.

    UsageError names a pattern that no task matches.
    """
    names = [task.folder.name for task in tasks]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise UsageError(f"no task is called {pattern!r}", hint=f"there are {', '.join(names)}")
    return [
        task
        for task in tasks
        if not patterns or any(fnmatch.fnmatchcase(task.folder.name, pattern) for pattern in patterns)
    ]


def find_host_values(tasks: Sequence[HarborTask], host: Mapping[str, str]) -> dict[str, str]:
    """Return what the tasks take from this machine's environment (`${VAR}`), as far as it is set.

    castform's runner reads it there; the real harbor's process sees nothing of it unless it is given.
    """
    wanted = {name for task in tasks for name in list_host_variables(task)}
    return {name: host[name] for name in sorted(wanted) if name in host}


async def _run_own(
    tasks: Sequence[HarborTask],
    agents: Sequence[str],
    folder: Path,
    sandbox: str,
    concurrency: int,
    on_progress: Callable[[str], None],
) -> dict[tuple[str, int], _Own]:
    """Return what each agent came to with the task at each place."""
    provider = load_provider(sandbox)
    slots = asyncio.Semaphore(concurrency)
    on_progress(f"castform: {len(tasks)} tasks with {' and '.join(agents)} on {sandbox}")

    async def run_one(task: HarborTask, agent: str, name: str) -> _Own:
        async with slots:
            own = await _run_one(task, agent, folder, name, provider, capabilities)
        said = own.error if own.rewards is None else dict(own.rewards)
        on_progress(f"castform: {task.folder.name}, {agent}: {said}")
        return own

    try:
        capabilities = await provider.check()
        async with asyncio.TaskGroup() as group:
            running = {
                (agent, place): group.create_task(
                    run_one(task, agent, f"{task.folder.name[:40]}__{agent}__{place}")
                )
                for agent in agents
                for place, task in enumerate(tasks)
            }
        return {key: each.result() for key, each in running.items()}
    finally:
        await provider.aclose()


async def _run_one(
    task: HarborTask,
    agent: str,
    folder: Path,
    name: str,
    provider: SandboxProvider,
    capabilities: Capabilities,
) -> _Own:
    try:
        outcome = await run_trial(
            task,
            harness=make_reference_agent(agent),
            provider=provider,
            trials_dir=folder,
            trial_name=name,
            capabilities=capabilities,
        )
    except (CastformError, OSError) as error:
        return _Own(rewards=None, error=f"refused: {error}")
    return _Own(rewards=outcome.rewards, error=outcome.error)


def _compare(task: HarborTask, agent: str, own: _Own, real: RealTrial) -> Compared:
    failed = real.exception_type
    return Compared(
        task=task.folder.name,
        agent=agent,
        own=own.rewards,
        real=real.rewards,
        own_error=own.error,
        real_error=real.problem or (f"{failed}: {real.exception_message}" if failed else None),
    )
