"""What a user can set on the environments of this plugin."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class CodeConfig(BaseModel):
    """Which tasks, how they are scored, and what a candidate may use."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    level: int | None = Field(None, ge=1, le=3)
    """1: one expression does it. 2: a loop or a condition. 3: several steps. Default: all."""
    scoring: Literal["all", "share"] = "all"
    """What `passed` pays: 1 when all hidden tests pass, or the share that pass above what needs no work."""
    tests: int = Field(12, ge=2, le=50)
    """Hidden tests a task; a task with fewer possible inputs has fewer."""
    seed: int = Field(0, ge=0, lt=2**31)
    """Decides the hidden tests and the order of the tasks, and never which tasks are held out."""
    train_examples: int | None = Field(None, ge=1)
    """Most training tasks. Default: all."""
    eval_examples: int | None = Field(None, ge=1)
    """Most held-out tasks. Default: all."""
    solved_examples: int = Field(1, ge=0, le=1)
    """Whether a solved task is shown before the one asked."""
    cpu_seconds: int = Field(2, ge=1, le=60)
    """Processor time of one reply's code, all hidden tests together."""
    wall_seconds: float = Field(20.0, gt=0, le=600)
    """Time of one reply's code, for code that waits and does not compute."""
    memory_mb: int = Field(256, ge=64, le=8192)
    """Memory of one reply's code."""
    confinement: Literal["required", "best"] = "required"
    """`best` runs code where the kernel cannot confine it (no Linux, no seccomp), with limits alone."""

    sandbox: str | None = None
    """Run each reply's code in a box of this provider, `docker` or `bubblewrap`. Default: the confined process alone."""
    image: str | None = None
    """Image of the boxes, with a whole Python of 3.11 or later. Default: python:3.12-slim, where images count."""
    warm_boxes: int = Field(2, ge=0, le=64)
    """Boxes that are started before they are needed."""


class TasksConfig(BaseModel):
    """The tasks as a dataset for a composed environment."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    level: int | None = Field(None, ge=1, le=3)
    """1: one expression does it. 2: a loop or a condition. 3: several steps. Default: all."""
    tests: int = Field(12, ge=2, le=50)
    """Hidden tests a task."""
    seed: int = Field(0, ge=0, lt=2**31)
    """Decides the hidden tests and the order of the tasks."""
