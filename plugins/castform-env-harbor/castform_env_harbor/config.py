"""What a user can set: which tasks, which agent, where it runs, how it is judged."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class HarborConfig(BaseModel):
    """Tasks and a harness. The limits in time are below the run's own limit of 600 s a rollout."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    tasks: str = Field(min_length=1)
    """A task folder, a folder of task folders, or a registry.json."""
    dataset: str | None = None
    """Which dataset of a registry.json: `name` or `name@version`. Unset: the only one."""
    eval_tasks: str | None = None
    """A folder of held-out tasks. Unset: `eval_ratio` of the tasks are held out."""
    eval_ratio: float = Field(0.1, ge=0, lt=1)
    """Share of the tasks that only evaluation sees: those with the lowest content hashes."""
    only: list[str] = Field(default_factory=list)
    """Patterns of the task names to take. Empty: all."""
    without: list[str] = Field(default_factory=list)
    """Patterns of the task names to leave out."""
    harness: str = "terminus-lite"
    """The agent: a harness's name, or a TOML file that wraps a program."""
    harness_args: dict[str, Any] = Field(default_factory=dict)
    """Options of the harness."""
    sandbox: str = "docker"
    """Where tasks run: docker, bubblewrap, or another provider."""
    sandbox_args: dict[str, Any] = Field(default_factory=dict)
    """Options of the provider."""
    verifier: Literal["fresh", "task"] = "fresh"
    """fresh: tests run in a new box with the declared artifacts alone, out of the agent's reach. task: as
    the task says, which by Harbor's default is in the agent's own box."""
    artifacts: list[str] = Field(default_factory=list)
    """Paths that are carried to the tests, beside those that a task declares."""
    network: Literal["task", "none"] = "task"
    """none: no phase reaches more than the model, whatever a task says."""
    agent_timeout_seconds: float = Field(240.0, gt=0)
    """Most time of the agent; a task that gives less gets less."""
    verifier_timeout_seconds: float = Field(120.0, gt=0)
    """Time of the tests."""
    setup_timeout_seconds: float = Field(120.0, gt=0)
    """Time for putting the agent's program into the box."""
    trial_timeout_seconds: float = Field(540.0, gt=0)
    """Time of a whole trial, its boxes included; keep it below rl.rollout_timeout_seconds."""
    keep_graded_failures: bool = True
    """Whether an agent that ran out of time or ended with an error keeps the reward of its work."""
    max_concurrent_trials: int | None = Field(4, ge=1)
    """Most trials at the same time."""
    keep_trials: Literal["all", "failed", "none"] = "failed"
    """Which trial folders stay on disk."""
    trials_dir: str | None = None
    """Where trial folders go, in a folder for each run. Unset: harbor/trials below CASTFORM_HOME."""
