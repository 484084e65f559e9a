"""What a user can set."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class LookupConfig(BaseModel):
    """Sizes, seed and difficulty. Which places are held out depends on none of them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which questions are drawn, and their order."""
    train_examples: int = Field(400, ge=1, le=10_000)
    """Most training questions."""
    eval_examples: int = Field(200, ge=1, le=10_000)
    """Most held-out questions."""
    lookups: int | None = Field(None, ge=1, le=2)
    """Cells that a question needs. Unset: questions with one and with two in turn."""
