"""What run hooks are told. Plain values only: a watcher cannot reach into the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class RunInfo:
    """Which run it is."""

    run_id: str
    name: str = ""
    kind: str = "train"
    """train, eval or validate."""
    environment: str = ""
    """Environment id as configured."""
    model: str = ""
    run_dir: Path | None = None
    """The run's own folder; a watcher may write files of its own there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStarted:
    """Of on_run_start."""

    steps: int
    """Steps the run is to take."""
    start_step: int = 0
    """Steps it has behind it when it resumes."""
    config: Mapping[str, object] = field(default_factory=dict)
    """The whole run config as plain data."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupScored:
    """Of on_group_scored."""

    step: int
    group_id: str
    example_id: str
    scores: tuple[float | None, ...]
    """One a rollout, in group order; None for a rollout that failed."""
    rewards: tuple[Mapping[str, float], ...] = ()
    """Named components a rollout; empty for one that failed."""
    has_signal: bool = True
    """Whether the group can teach anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEnded:
    """Of on_step_end."""

    step: int
    """Steps taken so far, this one included."""
    scalars: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSaved:
    """Of on_checkpoint_saved."""

    step: int
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalEnded:
    """Of on_eval_end."""

    step: int
    """Steps taken before it; 0 is the base model."""
    scalars: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnded:
    """Of on_run_end."""

    status: str
    """finished, stopped or failed."""
    step: int
    error: str | None = None
    verdict: str | None = None
    """better, no difference shown, worse; None without an evaluation before and after."""


RunEvent = RunStarted | GroupScored | StepEnded | CheckpointSaved | EvalEnded | RunEnded
