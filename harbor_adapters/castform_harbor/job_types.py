"""What goes into a job, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from castform.sandbox.contract import ModelEndpoint
from castform_harbor.rewards import MAIN_REWARD
from castform_harbor.task import HarborTask
from castform_harbor.trial_types import TrialOptions

OpenModel = Callable[[str], AbstractAsyncContextManager[ModelEndpoint | None]]
"""From a trial's name to the model of that trial."""
OpenModels = Callable[[], AbstractAsyncContextManager[OpenModel | None]]
"""Makes ready what opens them; entered only where there is a trial to run."""


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
    settings: Mapping[str, str | float | None] = field(default_factory=dict)
    """What else its results depend on, by name: how the model samples, what its adapter holds. No secrets."""


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
