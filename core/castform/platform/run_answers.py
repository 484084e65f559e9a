"""What the run store knows of a run, in the words of the platform's API."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from castform.platform.job import JOB_FOLDER, LOG_FILE
from castform.runs import EventRecord, RunRecord, RunStore


def describe_run(store: RunStore, record: RunRecord, *, include_config: bool) -> dict[str, Any]:
    """Return a run as lists and `get_run` show it."""
    events = store.list_events(record.run_id, limit=1)
    answer: dict[str, Any] = {
        "id": record.run_id,
        "name": record.name,
        "kind": record.kind,
        "status": record.status,
        "createdAt": _time(record.created),
        "updatedAt": _time(record.updated),
        "totalSteps": _planned_steps(store, record),
        "latestActivityMessage": _describe_event(events[-1]) if events else None,
        "error": record.error,
    }
    return {**answer, "launcherArgs": record.config} if include_config else answer


def describe_details(store: RunStore, record: RunRecord) -> dict[str, Any]:
    """Return how far a run is and where its files are."""
    scalars = store.read_scalars(record.run_id)
    evals = store.list_evals(record.run_id, label="verdict")
    folder = record.run_dir
    steps = [points[-1].step for names in scalars.values() for points in names.values()]
    return {
        "id": record.run_id,
        "status": record.status,
        "latestStep": max(steps, default=None),
        "totalSteps": _planned_steps(store, record),
        "modes": sorted(scalars),
        "errorCount": 0 if record.error is None else 1,
        "error": record.error,
        "runDir": None if folder is None else str(folder),
        "logPath": _existing(folder, f"{JOB_FOLDER}/{LOG_FILE}"),
        "resultPath": _existing(folder, "adapter") or _existing(folder, "model"),
        "verdict": evals[-1].result if evals else None,
    }


def describe_events(events: list[EventRecord]) -> list[dict[str, Any]]:
    return [
        {
            "id": event.event_id,
            "createdAt": _time(event.at),
            "kind": event.kind,
            "step": event.step,
            "data": event.data,
        }
        for event in events
    ]


def describe_scalars(store: RunStore, record: RunRecord, mode: str | None) -> dict[str, list[dict[str, Any]]]:
    """Return the curves of one mode, or of all: their names tell them apart (train/loss, eval/loss)."""
    found = store.read_scalars(record.run_id, mode=mode)
    curves: dict[str, list[dict[str, Any]]] = {}
    for names in found.values():
        for name, points in names.items():
            curves[name] = [{"step": point.step, "value": point.value} for point in points]
    return dict(sorted(curves.items()))


def _planned_steps(store: RunStore, record: RunRecord) -> int | None:
    if record.kind == "train":
        steps: int | None = record.config.get("run", {}).get("steps")
        return steps
    started = store.list_events(record.run_id, kind="started", limit=1)
    return started[-1].data.get("steps") if started else None


def _describe_event(event: EventRecord) -> str:
    return event.kind if event.step is None else f"{event.kind} at step {event.step}"


def _existing(folder: Path | None, name: str) -> str | None:
    return str(folder / name) if folder is not None and (folder / name).exists() else None


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
