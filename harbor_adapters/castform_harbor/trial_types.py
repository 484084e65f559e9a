"""What goes into a trial, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from castform.harness.contract import HarnessResult
from castform.sandbox.contract import Limits
from castform_harbor.rewards import MAIN_REWARD
from castform_harbor.task_config import Artifact

TrialStatus = Literal[
    "ok",
    "agent_timeout",
    "agent_nonzero",
    "context_exceeded",
    "output_exceeded",
    "max_turns",
    "verifier_error",
    "infra_error",
    "cancelled",
]
"""How a trial ended, apart from its reward. `verifier_error`, `infra_error` and `cancelled` never have one."""

GRADED: frozenset[TrialStatus] = frozenset(
    {"ok", "agent_timeout", "agent_nonzero", "context_exceeded", "output_exceeded", "max_turns"}
)
"""The agent's own endings: they are verified like any other, and what they earned is theirs."""

VerifierChoice = Literal["task", "fresh"]
UsedVerifier = Literal["shared", "separate", "fresh"]

AGENT_SETUP_SECONDS = 360.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialOptions:
    """How a task is run, where the task leaves a choice. The defaults are Harbor's."""

    verifier: VerifierChoice = "task"
    """`task`: as the task says. `fresh`: what the task would verify in the agent's own box is verified
    in a new one from the same image, with the declared artifacts alone copied in: nothing else that
    the agent did can reach the tests. UsageError for a task that declares none."""
    verify: bool = True
    timeout_multiplier: float = 1.0
    """Of every limit in time that has no multiplier of its own."""
    agent_timeout_multiplier: float | None = None
    verifier_timeout_multiplier: float | None = None
    agent_setup_timeout_multiplier: float | None = None
    build_timeout_multiplier: float | None = None
    agent_timeout_seconds: float | None = None
    """Instead of the task's."""
    max_agent_timeout_seconds: float | None = None
    """The most that any task gets, also one that says none, before the multiplier."""
    verifier_timeout_seconds: float | None = None
    """Instead of the task's."""
    limits: Limits = field(default_factory=Limits)
    """For what the task leaves open."""
    network: Literal["task", "none"] = "task"
    """`none`: no phase reaches more than the model, whatever the task says."""
    host_env: Mapping[str, str] | None = field(default=None, repr=False)
    """Where `${VAR}` comes from; None: this process's environment."""
    agent_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the agent's program alone."""
    verifier_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the tests alone, over the task's."""
    extra_instructions: tuple[str, ...] = ()
    """Paragraphs after every instruction."""
    artifacts: tuple[Artifact, ...] = ()
    """Beside those that the task lists."""
    keep_agent_processes: bool = False
    """Let what the agent left running go on while the tests run in its box. For tasks that ask for a
    server; else everything the agent started is ended first."""
    max_download_bytes: int = 256 << 20
    """Of each folder that is carried out of a box."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepOutcome:
    """One step, or a task of one."""

    name: str | None
    status: TrialStatus
    error: str | None = None
    rewards: Mapping[str, float] | None = None
    verifier: UsedVerifier | None = None
    """Where the tests ran; None: they did not."""
    agent_result: HarnessResult | None = None
    test_exit_code: int | None = None
    """Of test.sh. It decides nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialOutcome:
    """How one attempt at a task ended."""

    task_name: str
    trial_name: str
    trial_dir: Path
    status: TrialStatus
    error: str | None = None
    rewards: Mapping[str, float] | None = None
    """By name; None: there is no reward, which is not zero."""
    steps: tuple[StepOutcome, ...] = ()
    """In order, as far as the trial went; one for a task without steps."""
    warnings: tuple[str, ...] = ()
    """What the task asked for and did not get, and what was odd."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By phase: environment_setup, agent_setup, agent_execution, verifier, total."""

    @property
    def reward(self) -> float | None:
        """The value of `reward`, or the only one there is; None where there is none or a choice is needed."""
        if not self.rewards:
            return None
        if MAIN_REWARD in self.rewards:
            return self.rewards[MAIN_REWARD]
        return next(iter(self.rewards.values())) if len(self.rewards) == 1 else None

    @property
    def agent_result(self) -> HarnessResult | None:
        """How the agent ended, in the last step that it took."""
        return next((step.agent_result for step in reversed(self.steps) if step.agent_result), None)
