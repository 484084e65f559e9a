"""The journal's file: append an event, read them back."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from castform.plugins import RunInfo

FILE_NAME = "journal.jsonl"


def write_event(run: RunInfo, name: str, event: Any, *, now: float | None = None) -> None:  # any event class
    """Append one line to the run's journal. A run without a folder has none. OSError when it cannot be written."""
    if run.run_dir is None:
        return
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    record = {"time": time.time() if now is None else now, "run": run.run_id, "event": name, **fields}
    line = json.dumps(record, ensure_ascii=False, default=str) + "\n"
    with (run.run_dir / FILE_NAME).open("a", encoding="utf-8") as file:
        file.write(line)


def read_events(place: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a journal, or of the run folder it lies in; a last line cut short is left out."""
    path = place / FILE_NAME if place.is_dir() else place
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)
