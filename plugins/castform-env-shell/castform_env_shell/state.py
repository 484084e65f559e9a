"""What a folder holds: what a task begins with, what it should end with, what it did end with."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LARGEST_FILE = 1 << 20  # bytes; a larger one is no right answer to any task
MOST_ENTRIES = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """Files and folders by their path below the task's folder."""

    files: Mapping[str, str] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    executable: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """What has to be true in the end. Whatever is not named has to be as it was; new files are nobody's business."""

    files: Mapping[str, str | None] = field(default_factory=dict)
    """Content of each; None: the file is gone."""
    folders: tuple[str, ...] = ()
    executable: tuple[str, ...] = ()


def is_reached(goal: Goal, start: State, end: State) -> bool:
    """Whether everything that was asked for is so, and nothing else was harmed."""
    return is_unharmed(goal, start, end) and all(
        (
            all(_is_same(end.files.get(path), text) for path, text in goal.files.items()),
            set(goal.folders) <= end.folders,
            set(goal.executable) <= end.executable,
        )
    )


def touched_share(goal: Goal, start: State, end: State) -> float:
    """Return the share, from 0 to 1, of what was asked for that has been begun; 0 where harm was done.

    Begun is a file whose content is no longer what it was, a folder that is there, a script that
    can be run. What has to go counts where nothing has to be made: deleting is no beginning of the rest.
    """
    if not is_unharmed(goal, start, end):
        return 0.0
    made = [path for path, text in goal.files.items() if text is not None]
    changes = [
        *(path in end.files and not _is_same(end.files[path], start.files.get(path)) for path in made),
        *(path in end.folders for path in goal.folders),
        *(path in end.executable for path in goal.executable),
    ] or [path not in end.files for path in goal.files]
    return sum(changes) / len(changes)


def is_unharmed(goal: Goal, start: State, end: State) -> bool:
    """Whether the files and folders that the task does not name are still there, unchanged."""
    kept = start.files.keys() - goal.files.keys()
    changed_modes = (start.executable ^ end.executable) & (kept - set(goal.executable))
    return (
        start.folders <= end.folders
        and all(end.files.get(path) == start.files[path] for path in kept)
        and not changed_modes
    )


def write_state(state: State, folder: Path) -> None:
    """Write a state to an empty folder."""
    for path in sorted(state.folders):
        (folder / path).mkdir(parents=True, exist_ok=True)
    for path, text in state.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        (folder / path).chmod(0o755 if path in state.executable else 0o644)


def read_state(folder: Path) -> State:
    """Return what is in a folder that a stranger has filled: no link is followed, nothing large is read."""
    files, folders, executable = {}, set(), set()
    left = MOST_ENTRIES
    for place, below, names in os.walk(folder, followlinks=False):
        here = Path(place)
        folders |= {
            (here / name).relative_to(folder).as_posix()
            for name in below[:left]
            if not (here / name).is_symlink()
        }
        for name in names[: max(0, left)]:
            path = (here / name).relative_to(folder).as_posix()
            text, mode = _read_regular(here / name)
            if text is not None:
                files[path] = text
                if mode & 0o100:
                    executable.add(path)
        left -= len(below) + len(names)
        if left <= 0:
            break
    return State(files=files, folders=frozenset(folders), executable=frozenset(executable))


def _read_regular(path: Path) -> tuple[str | None, int]:
    """Return text and mode; None for whatever is no readable, regular, small file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None, 0
    with os.fdopen(file, "rb") as opened:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST_FILE:
            return None, 0
        return opened.read(LARGEST_FILE).decode("utf-8", "replace"), about.st_mode


def _is_same(found: str | None, wanted: str | None) -> bool:
    """Compare texts line by line, blanks at the ends of lines and of the text left out of it."""
    if found is None or wanted is None:
        return found is wanted
    return _lines(found) == _lines(wanted)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]
