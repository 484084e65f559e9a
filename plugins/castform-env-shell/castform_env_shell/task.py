"""What a shell task is, and which ones are held out."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from castform_env_shell.state import Goal, State

Level = Literal["easy", "medium", "hard"]
Split = Literal["train", "eval"]
HELD_OUT_SHARE = 0.2
"""Share of all possible tasks that only evaluation sees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Something to do in a folder."""

    question: str
    start: State
    goal: Goal
    solution: str
    """Shell commands that do it."""


Maker = Callable[[random.Random], Task]


def key_of(task: Task) -> str:
    """Return what tells a task from every other: its question and what it begins with."""
    start = [sorted(task.start.files.items()), sorted(task.start.folders), sorted(task.start.executable)]
    text = json.dumps([task.question, start])
    return hashlib.sha256(f"castform-env-shell:{text}".encode()).hexdigest()


def split_of(task: Task) -> Split:
    """Return the split of a task, by the task alone: no seed moves one from evaluation to training."""
    return "eval" if int(key_of(task)[:8], 16) < HELD_OUT_SHARE * 2**32 else "train"
