"""The run store: runs, events, scalars, rollouts and evaluations in one database, folders beside it."""

from __future__ import annotations

from castform.runs.folder import hold_run_folder, run_folder
from castform.runs.records import (
    EvalRecord,
    EventRecord,
    PinRecord,
    RolloutRecord,
    RunRecord,
    RunStatus,
    ScalarPoint,
)
from castform.runs.store import RunStore

__all__ = [
    "EvalRecord",
    "EventRecord",
    "PinRecord",
    "RolloutRecord",
    "RunRecord",
    "RunStatus",
    "RunStore",
    "ScalarPoint",
    "hold_run_folder",
    "run_folder",
]
