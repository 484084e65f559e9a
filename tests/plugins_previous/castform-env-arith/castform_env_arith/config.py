"""What a user can set on the environments of this plugin."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ArithConfig(BaseModel):
    """Sizes and seed. Which questions are held out does not depend on any of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which questions are drawn, and their order."""
    train_examples: int = Field(400, ge=1, le=10_000)
    """Most training questions. A grade that has fewer gives all it has."""
    eval_examples: int = Field(200, ge=1, le=10_000)
    """Most held-out questions."""
    solved_examples: int = Field(1, ge=0, le=4)
    """Solved questions shown before the one asked. A small model needs at least one to find the tags."""


class MixedConfig(ArithConfig):
    level: int = Field(1, ge=1, le=5)
    """1: sums and differences up to 24. 2: two-digit sums besides. 3: two-digit sums and differences.
    4: products up to 20 x 20 besides. 5: two-digit products instead."""
