"""The folder of a trial, in Harbor's shape: `harbor view` and `harbor job resume` read it.

Every document is written whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from castform.errors import UsageError

CONFIG_FILE = "config.json"
LOCK_FILE = "lock.json"
RESULT_FILE = "result.json"
LOG_FILE = "trial.log"
ERROR_FILE = "exception.txt"

Now = Callable[[], datetime]


def make_trial_folder(trials_dir: Path, name: str) -> Path:
    """Make an empty folder for a trial. UsageError where there is one, or the name is none."""
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise UsageError(f"{name!r} is no name for a trial's folder")
    folder = trials_dir / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(
            f"{folder} is there already", hint="every attempt has a folder of its own: give another name"
        ) from error
    for part in ("agent", "verifier", "artifacts"):
        (folder / part).mkdir()
    return folder


def make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:  # Any: JSON
    """Write a document whole: readers see the old one or the new one.

    Half a surrogate pair is written as JSON's own escape of it.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(value, file, indent=4, ensure_ascii=False, default=str)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:  # Any: JSON
    """Return a document; None where there is none, or it is truncated, empty or no object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime | None) -> str | None:
    """Return a moment as Harbor writes it."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


class TrialLog:
    """trial.log: a line for everything that is done, with the time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, text: str) -> None:
        line = f"{stamp(now())} {text}".replace("\n", "\\n")
        with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(line + "\n")
