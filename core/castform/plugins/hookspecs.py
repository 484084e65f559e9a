"""Every hook that castform calls, with its signature. docs/hooks.md is held to this file by a test.

Registration hooks are asked when an id of the plugin is; run hooks only when the run's
config names the plugin as a watcher. An implementation takes any of the arguments by
name and gives none of them a default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from castform.plugins.catalog import GROUP

if TYPE_CHECKING:
    from castform.plugins.commands import CommandGroup
    from castform.plugins.events import (
        CheckpointSaved,
        EvalEnded,
        GroupScored,
        RunEnded,
        RunInfo,
        RunStarted,
        StepEnded,
    )
    from castform.plugins.specs import (
        DatasetSpec,
        EngineSpec,
        EnvironmentSpec,
        HarnessSpec,
        RewardSpec,
        RubricSpec,
        SandboxSpec,
        ToolSpec,
    )

hookspec = pluggy.HookspecMarker(GROUP)


@hookspec
def register_environments() -> Iterable[EnvironmentSpec]:  # type: ignore[empty-body]  # a declaration
    """Name the environments of this plugin."""


@hookspec
def register_datasets() -> Iterable[DatasetSpec]:  # type: ignore[empty-body]  # a declaration
    """Name datasets that a composed environment can draw examples from."""


@hookspec
def register_tools() -> Iterable[ToolSpec]:  # type: ignore[empty-body]  # a declaration
    """Name tools that a composed environment can offer to the model."""


@hookspec
def register_rewards() -> Iterable[RewardSpec]:  # type: ignore[empty-body]  # a declaration
    """Name reward functions that a composed environment can weigh."""


@hookspec
def register_rubrics() -> Iterable[RubricSpec]:  # type: ignore[empty-body]  # a declaration
    """Name rubrics that a judge can score by."""


@hookspec
def register_sandboxes() -> Iterable[SandboxSpec]:  # type: ignore[empty-body]  # a declaration
    """Name sandbox providers."""


@hookspec
def register_harnesses() -> Iterable[HarnessSpec]:  # type: ignore[empty-body]  # a declaration
    """Name agent programs."""


@hookspec
def register_engines() -> Iterable[EngineSpec]:  # type: ignore[empty-body]  # a declaration
    """Name engines that sample tokens."""


@hookspec
def register_commands(group: CommandGroup) -> None:
    """Add commands to `castform x <plugin> …` with `group.add(...)`."""


@hookspec(firstresult=True)
def explain_error(error: BaseException) -> str | None:
    """Return a hint for an error that ended a command, or None. The error itself is shown as it is."""


@hookspec
def on_run_start(run: RunInfo, event: RunStarted) -> None:
    """A run has begun; nothing has been sampled yet."""


@hookspec
def on_group_scored(run: RunInfo, event: GroupScored) -> None:
    """All rollouts of one example have settled."""


@hookspec
def on_step_end(run: RunInfo, event: StepEnded) -> None:
    """An optimiser step was taken and its scalars are in the store."""


@hookspec
def on_checkpoint_saved(run: RunInfo, event: CheckpointSaved) -> None:
    """A checkpoint is complete on disk."""


@hookspec
def on_eval_end(run: RunInfo, event: EvalEnded) -> None:
    """An evaluation on held-out examples has ended."""


@hookspec
def on_run_end(run: RunInfo, event: RunEnded) -> None:
    """The run is over, whatever the reason."""
