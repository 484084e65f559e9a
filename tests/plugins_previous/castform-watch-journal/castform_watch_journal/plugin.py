"""What castform reads: the run hooks and one command."""

from __future__ import annotations

import argparse

from castform.plugins import (
    CheckpointSaved,
    CommandGroup,
    EvalEnded,
    GroupScored,
    RunEnded,
    RunInfo,
    RunStarted,
    StepEnded,
    hookimpl,
)
from castform_watch_journal.journal import write_event


@hookimpl
def on_run_start(run: RunInfo, event: RunStarted) -> None:
    write_event(run, "run_start", event)


@hookimpl
def on_group_scored(run: RunInfo, event: GroupScored) -> None:
    write_event(run, "group_scored", event)


@hookimpl
def on_step_end(run: RunInfo, event: StepEnded) -> None:
    write_event(run, "step_end", event)


@hookimpl
def on_checkpoint_saved(run: RunInfo, event: CheckpointSaved) -> None:
    write_event(run, "checkpoint_saved", event)


@hookimpl
def on_eval_end(run: RunInfo, event: EvalEnded) -> None:
    write_event(run, "eval_end", event)


@hookimpl
def on_run_end(run: RunInfo, event: RunEnded) -> None:
    write_event(run, "run_end", event)


@hookimpl
def register_commands(group: CommandGroup) -> None:
    group.add(
        "show", "Print a run's journal", run="castform_watch_journal.show:show", add_arguments=_add_arguments
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", help="the run's folder, or the journal itself")
    parser.add_argument("--event", help="only this kind, such as step_end")
