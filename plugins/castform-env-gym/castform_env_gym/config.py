"""What a user can set on the environments of this plugin."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

OURS = frozenset({"seed", "size"})


class GymConfig(BaseModel):
    """Sizes, seed and the dataset's own options. Which questions are held out depends on none of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which questions are drawn, and their order."""
    train_examples: int = Field(400, ge=1, le=100_000)
    """Most training questions. A dataset that has fewer gives all it has."""
    eval_examples: int = Field(100, ge=1, le=100_000)
    """Most held-out questions."""
    answer: Literal["tags", "text"] = "tags"
    """What is scored: the inside of the one pair of <answer> tags, or the whole reply, without the space around it."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The dataset's own options, as reasoning-gym names them: {min_terms = 2, max_terms = 3}."""

    @field_validator("options")
    @classmethod
    def _leave_seed_and_size(cls, options: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(OURS & options.keys())
        if taken:
            raise ValueError(f"{' and '.join(taken)} cannot be set here; this environment has its own")
        return options
