"""The `[environment]` of a run: an id, or parts that make one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from castform.compose.settings import (
    DatasetPart,
    JudgePart,
    PromptMessage,
    RewardPart,
    RubricPart,
    ToolPart,
    write_out_dataset,
    write_out_parts,
    write_out_prompt,
    write_out_rubrics,
)
from castform.mixture.settings import MixPart
from castform.section import Section
from castform.workers.limits import HANG_SECONDS, MAX_WORKERS

PART_LISTS: dict[str, Callable[[Any, str], Any]] = {
    "tools": write_out_parts,
    "rewards": write_out_parts,
    "rubrics": write_out_rubrics,
    "mix": write_out_parts,
}
"""Keys that hold several parts, and what writes their short forms out."""
PART_KEYS = ("dataset", "eval_dataset", "prompt", "tools", "rewards", "rubrics", "judge", "mix")
"""What makes an `[environment]` a composed one."""
WORKER_KEYS = ("workers", "worker_memory_mb", "worker_hang_seconds")
"""Where an environment runs, which changes nothing in it."""
MORE_KEYS = (
    "summary",
    "held_out",
    "gold",
    "max_turns",
    "max_tool_calls",
    "parallel_tool_calls",
    "rollout_timeout_seconds",
    "tool_timeout_seconds",
    "reward_timeout_seconds",
)
"""What else only a composed one has."""


class EnvironmentSection(Section):
    """An environment by its id, or parts that make one (docs/composing.md)."""

    id: str = ""
    """Plugin id (`arith/add`), or a path to a Python file with one Environment class in it, or to a TOML."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment's factory; of a TOML, keys of its [environment] to replace."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weight of a reward component in the score; a component that is not named weighs 1, or as its part says."""
    base_dir: Path = Path()
    """Folder that relative dataset paths of the environment start from."""
    workers: int = Field(0, ge=0, le=MAX_WORKERS)
    """Processes that the environment runs in (docs/isolation.md). 0: in this one, unless it is installed isolated."""
    worker_memory_mb: int | None = Field(None, ge=1)
    """Most memory of one worker process; beyond it it is ended and its rollouts fail. Unset: no limit."""
    worker_hang_seconds: float = Field(HANG_SECONDS, gt=0)
    """Longest that a worker process may not answer while it runs rollouts; then it is ended and they fail."""
    summary: str = ""
    """One line about a composed environment."""
    dataset: DatasetPart | None = None
    """Registered dataset (`arith/add`), JSONL file, or rows. With it the environment is composed of parts."""
    eval_dataset: DatasetPart | None = None
    """Held-out examples. Unset: the dataset's own eval split, or rows that are held out."""
    held_out: float | None = Field(None, gt=0, lt=1)
    """Share of the rows that only evaluation sees. Unset: 0.2 of a file's; a registered dataset has two splits."""
    prompt: tuple[PromptMessage, ...] = ()
    """Messages with {field}s of the row in them: a text, a table with system and user, or a list of messages."""
    gold: str = ""
    """Field of the row with the right answer. Unset: ground_truth, else answer."""
    tools: tuple[ToolPart, ...] = ()
    """Ids of tools, or tables with id, args and name."""
    rewards: tuple[RewardPart, ...] = ()
    """Ids of rewards with their weights, or tables with id, weight, args, fields and name."""
    rubrics: tuple[RubricPart, ...] = ()
    """Ids or texts of rubrics with their weights, or tables with id or text, weight, title, polarity and name."""
    judge: JudgePart | None = None
    """Model that scores by the rubrics."""
    mix: tuple[MixPart, ...] = ()
    """Ids of environments with their weights, or tables with id, weight, args and weights: several in one run."""
    max_turns: int | None = Field(None, ge=1)
    """Most model calls of a composed environment's rollout. Unset: 1, with tools 8."""
    max_tool_calls: int | None = Field(None, ge=0)
    """Most tool calls of its rollout. Unset: no limit."""
    parallel_tool_calls: bool = False
    """Run the tool calls of one turn side by side."""
    rollout_timeout_seconds: float | None = Field(None, gt=0)
    """Most seconds of its rollout, tools and scoring included. Unset: rl.rollout_timeout_seconds alone."""
    tool_timeout_seconds: float | None = Field(60.0, gt=0)
    """Most seconds of one tool call; then the model is told so."""
    reward_timeout_seconds: float | None = Field(60.0, gt=0)
    """Most seconds of one reward; then the rollout is not scored, or goes without the metric."""

    @property
    def is_composed(self) -> bool:
        """Whether it is made of parts."""
        return not self.id and any(getattr(self, name) for name in PART_KEYS)

    @field_validator("dataset", "eval_dataset", mode="before")
    @classmethod
    def _write_out_dataset(cls, value: Any, info: ValidationInfo) -> Any:
        return write_out_dataset(value, str(info.field_name))

    @field_validator("tools", "rewards", "rubrics", "mix", mode="before")
    @classmethod
    def _write_out_parts(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        written = (info.context or {}).get("written", {})
        return written[name] if name in written else PART_LISTS[name](value, name)

    @field_validator("prompt", mode="before")
    @classmethod
    def _write_out_prompt(cls, value: Any) -> Any:
        return write_out_prompt(value)

    @model_validator(mode="after")
    def _check_id_or_parts(self) -> EnvironmentSection:
        parts = [name for name in PART_KEYS if getattr(self, name)]
        if self.id and parts:
            raise ValueError(
                f"environment has the id {self.id!r} and {' and '.join(parts)}: give an id, or parts"
            )
        given = [name for name in MORE_KEYS if getattr(self, name) != type(self).model_fields[name].default]
        if self.id and given:
            raise ValueError(
                f"environment.{given[0]} is for an environment that is made of parts; {self.id!r} takes arguments, "
                "under environment.args"
            )
        if parts and self.args:
            raise ValueError("environment.args are for an id; a part has args of its own")
        if self.mix and len(parts) > 1:
            others = " and ".join(name for name in parts if name != "mix")
            raise ValueError(f"environment has a mix and {others}: compose in a TOML of its own and mix that")
        own = [name for name in given if name != "summary"]
        if self.mix and own:
            raise ValueError(f"environment.{own[0]} is not for a mix: each environment in it has its own")
        return self
