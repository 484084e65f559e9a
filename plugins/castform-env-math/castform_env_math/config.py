"""What a user can set on the environments of this plugin."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class AnswerConfig(BaseModel):
    """What every environment here has."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    style: Literal["tags", "boxed"] = "tags"
    """Where the answer stands: between <answer> tags, or in a LaTeX box."""
    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which problems are drawn, and their order."""


class MathConfig(AnswerConfig):
    """Sizes, seed and difficulty. Which numbers are held out does not depend on any of them."""

    level: int = Field(1, ge=1, le=3)
    """1: one step with small numbers. 2: one step with larger ones. 3: several steps."""
    train_examples: int = Field(400, ge=1, le=10_000)
    """Most training problems. A kind that has fewer gives all it has."""
    eval_examples: int = Field(200, ge=1, le=10_000)
    """Most held-out problems."""
    solved_examples: int = Field(1, ge=0, le=2)
    """Solved problems of the same sort shown before the one asked."""
    working: bool = False
    """Whether solved examples show a line of working before the answer."""


class JsonlConfig(AnswerConfig):
    """A file of the user's own."""

    path: str = Field(min_length=1)
    """A JSONL file, one problem a line; a relative path starts at the current directory."""
    eval_path: str | None = None
    """Another one with the held-out problems. Without it, a hash of the question holds a share out."""
    eval_share: float = Field(0.2, gt=0, lt=1)
    """Share of the problems that is held out when there is no `eval_path`."""
    question_field: str | None = None
    """Default: `question`, or else `problem`."""
    answer_field: str | None = None
    """Default: `answer`, or else `solution`. Of a worked solution what it boxes, or puts after ####, counts."""
    train_examples: int | None = Field(None, ge=1)
    """Most training problems. Default: all."""
    eval_examples: int | None = Field(None, ge=1)
    """Most held-out problems. Default: all."""
    solved_question: str | None = None
    """A solved problem to show before the one asked, with its answer in `solved_answer`."""
    solved_answer: str | None = None
    """The answer alone, as it has to be written."""

    @model_validator(mode="after")
    def _check_solved(self) -> Self:
        if (self.solved_question is None) != (self.solved_answer is None):
            raise ValueError("solved_question and solved_answer are set together or not at all")
        return self
