"""What a user can set on the environments of this plugin."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class ShellConfig(BaseModel):
    """Which tasks, in which boxes, and how long the model may work on one."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    level: Literal["easy", "medium", "hard"] | None = None
    """easy: one command does it. medium: a filter or a count. hard: several files at once. Default: all."""
    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which tasks are drawn and their order, and never which ones are held out."""
    train_examples: int = Field(400, ge=1, le=100_000)
    """Training tasks; fewer where the level has not so many."""
    eval_examples: int = Field(60, ge=1, le=100_000)
    """Held-out tasks."""
    solved_examples: int = Field(1, ge=0, le=1)
    """Whether a solved task of the same kind is shown before the one asked."""
    turns: int | None = Field(None, ge=1, le=20)
    """Most replies of the model. Default: 1 for easy tasks, 3 for medium and 5 for hard ones."""
    sandbox: str = "auto"
    """A provider of boxes (`process` isolates nothing). auto: docker where an engine answers, else bubblewrap."""
    image: str | None = None
    """Image of the boxes. It needs a POSIX shell and the usual tools. Default: the provider's own."""
    warm_boxes: int = Field(2, ge=0, le=64)
    """Boxes that are started before they are needed."""
    command_seconds: float = Field(10.0, gt=0, le=600)
    """Time of the commands of one reply."""
    memory_mb: int = Field(256, ge=32, le=65536)
    """MiB of memory that a box may use."""
    disk_mb: int = Field(64, ge=8, le=65536)
    """MiB that a box may write."""
