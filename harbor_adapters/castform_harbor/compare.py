"""The same tasks by two runners: castform's own, and the real harbor."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.sandbox import load_provider
from castform.sandbox.contract import Capabilities, SandboxProvider
from castform_harbor.real_harbor import RealHarbor
from castform_harbor.real_harbor_results import RealTrial
from castform_harbor.real_harbor_run import ENVIRONMENT, RealJob, run_real_harbor
from castform_harbor.reference_agents import make_reference_agent
from castform_harbor.task import HarborTask
from castform_harbor.tasks import load_tasks
from castform_harbor.trial import run_trial
from castform_harbor.trial_types import TrialOutcome


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
            "castform_error": self.own_error,
            "harbor_error": self.real_error,
        }


async def compare_runners(
    source: Path,
    *,
    agents: Sequence[str],
    jobs_dir: Path,
    harbor: RealHarbor,
    sandbox: str = "docker",
    concurrency: int = 2,
    compose: bool = False,
    names: Sequence[str] | None = None,
) -> list[Compared]:
    """Run every task of a source with each agent by both runners, one runner after the other.

    `names`: only the tasks in these folders. Raises UsageError for tasks that are not whole, and what the sandboxes lack.
    """
    tasks = [task for task in load_tasks(source) if names is None or task.folder.name in names]
    folder = jobs_dir / f"compare-{secrets.token_hex(4)}"
    own = await _run_own(tasks, agents, folder / "castform", sandbox, concurrency)
    environment = {"type": "docker"} if compose else {"import_path": ENVIRONMENT}
    real: dict[tuple[str, Path], RealTrial] = {}
    for agent in agents:
        job = RealJob(
            tasks=[task.folder for task in tasks],
            agent={"name": agent},
            concurrency=concurrency,
            environment=environment,
        )
        for trial in await run_real_harbor(job, folder / "harbor", harbor=harbor):
            real[agent, trial.task] = trial
    return [
        _compare(task, agent, own[agent, task.folder], real[agent, task.folder])
        for agent in agents
        for task in tasks
    ]


async def _run_own(
    tasks: Sequence[HarborTask], agents: Sequence[str], folder: Path, sandbox: str, concurrency: int
) -> dict[tuple[str, Path], TrialOutcome]:
    provider = load_provider(sandbox)
    slots = asyncio.Semaphore(concurrency)
    try:
        capabilities = await provider.check()
        async with asyncio.TaskGroup() as group:
            running = {
                (agent, task.folder): group.create_task(
                    _run_one(task, agent, folder, provider, capabilities, slots)
                )
                for agent in agents
                for task in tasks
            }
        return {key: each.result() for key, each in running.items()}
    finally:
        await provider.aclose()


async def _run_one(
    task: HarborTask,
    agent: str,
    folder: Path,
    provider: SandboxProvider,
    capabilities: Capabilities,
    slots: asyncio.Semaphore,
) -> TrialOutcome:
    async with slots:
        return await run_trial(
            task,
            harness=make_reference_agent(agent),
            provider=provider,
            trials_dir=folder,
            trial_name=f"{task.folder.name}__{agent}",
            capabilities=capabilities,
        )


def _compare(task: HarborTask, agent: str, own: TrialOutcome, real: RealTrial) -> Compared:
    failed = real.exception_type
    return Compared(
        task=task.folder.name,
        agent=agent,
        own=own.rewards,
        real=real.rewards,
        own_error=own.error,
        real_error=real.problem or (f"{failed}: {real.exception_message}" if failed else None),
    )
