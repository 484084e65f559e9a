"""Harbor's two agents that ask no model: `oracle` runs the task's own solution, `nop` does nothing.

A sound task gives 1 to the first and 0 to the second.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from castform.errors import UsageError
from castform.harness.contract import AgentTask, Harness, HarnessError, HarnessResult
from castform.sandbox.contract import ModelEndpoint, Sandbox
from castform.sandbox.errors import ExecTimeoutError
from castform.sandbox.scratch import open_scratch
from castform_harbor.task import HarborTask
from castform_harbor.task_files import copy_selected
from castform_harbor.templates import fill_templates

REFERENCE_AGENTS = ("oracle", "nop")
SOLUTION = "/solution"
_LOG = "oracle.txt"


@dataclass(frozen=True, kw_only=True, slots=True)
class NopHarness:
    """Does nothing."""

    name: str = "nop"
    version: str | None = "1"

    async def setup(self, sandbox: Sandbox) -> None:
        """There is nothing to set up."""

    async def run(
        self, task: AgentTask, sandbox: Sandbox, endpoint: ModelEndpoint | None = None
    ) -> HarnessResult:
        return HarnessResult(status="finished")


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleHarness:
    """Runs solution/solve.sh. `run_trial` binds it to the task, and to each step of it."""

    name: str = "oracle"
    version: str | None = "1"
    task: HarborTask | None = None
    step: str | None = None
    host_env: Mapping[str, str] = field(default_factory=dict, repr=False)

    async def setup(self, sandbox: Sandbox) -> None:
        """There is nothing to set up."""

    async def run(
        self, task: AgentTask, sandbox: Sandbox, endpoint: ModelEndpoint | None = None
    ) -> HarnessResult:
        """Upload the solution and run it as the agent's user. HarnessError where the task has none."""
        folder = self.task.solution(self.step) if self.task else None
        if self.task is None or folder is None:
            raise HarnessError("the task has no solution/solve.sh, so there is nothing for the oracle to run")
        env = fill_templates(self.task.config.solution_env, self.host_env, where="[solution.env]")
        with open_scratch("solution") as work:
            copy = work / "solution"
            copy_selected(folder, copy, self.task.leaves_out(), script="solve.sh")
            await sandbox.upload(copy, SOLUTION)
        log = shlex.quote(f"{task.log_dir}/{_LOG}")
        try:
            done = await sandbox.exec(
                ["sh", "-c", f"({SOLUTION}/solve.sh) > {log} 2>&1"],
                cwd=task.workdir,
                user=task.user,
                env={"DEBIAN_FRONTEND": "noninteractive", **task.env, **env},
                timeout_seconds=task.timeout_seconds,
            )
        except ExecTimeoutError:
            return HarnessResult(status="timeout")
        return HarnessResult(
            status="finished" if done.exit_code == 0 else "nonzero_exit", exit_code=done.exit_code
        )


def make_reference_agent(name: str) -> Harness:
    """Return `oracle` or `nop`."""
    return OracleHarness() if name == "oracle" else NopHarness()


def check_solution(harness: Harness, task: HarborTask, host_env: Mapping[str, str]) -> None:
    """Raise UsageError where the oracle would have nothing to run, in a task or a step of it, or lacks a variable."""
    if not isinstance(harness, OracleHarness):
        return
    fill_templates(task.config.solution_env, host_env, where="[solution.env]")
    missing = [step.name if step else None for step in task.steps or (None,)]
    missing = [name for name in missing if task.solution(name) is None]
    if missing:
        steps = ", ".join(name for name in missing if name)
        raise UsageError(
            f"{task.name} has no solution/solve.sh for the oracle to run" + (f" in {steps}" if steps else ""),
            hint="leave it out, or run it with another --agent",
        )


def bind_harness(
    harness: Harness, task: HarborTask, step: str | None, host_env: Mapping[str, str]
) -> Harness:
    """Return the harness for one phase: the oracle has to know whose solution it runs."""
    if isinstance(harness, OracleHarness):
        return OracleHarness(task=task, step=step, host_env=host_env)
    return harness
