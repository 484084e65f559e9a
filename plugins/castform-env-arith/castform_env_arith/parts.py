"""What other people's environments can take from here: questions to ask, and a tool to answer them with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from benchmax.envs import Dataset, DatasetSplit, Example
from castform_env_arith.config import ArithConfig, MixedConfig
from castform_env_arith.environment import make_example
from castform_env_arith.questions import (
    DIGIT_SUMS,
    MIXED_LEVELS,
    SMALL_SUMS,
    Kind,
    draw_questions,
)


class Questions:
    """A dataset: `question`, `first`, `symbol`, `second` and `ground_truth`, and the prompt of the environments."""

    def __init__(self, config: ArithConfig, kinds: Sequence[Kind]) -> None:
        self._config = config
        self._kinds = tuple(kinds)

    def create(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the questions of a split; held-out operand pairs never occur in training."""
        config = self._config
        size = config.train_examples if split == "train" else config.eval_examples
        questions = draw_questions(self._kinds, split, count=size, seed=config.seed)
        examples = []
        for question in questions[:max_examples]:
            made = make_example(question, solved=config.solved_examples)
            fields = {
                "question": question.text,
                "first": question.first,
                "symbol": question.kind.symbol,
                "second": question.second,
            }
            examples.append(Example(made.id, {**made.payload, **fields}))
        return Dataset(examples)


def make_add_questions(config: ArithConfig) -> Questions:
    return Questions(config, [DIGIT_SUMS])


def make_add24_questions(config: ArithConfig) -> Questions:
    return Questions(config, [SMALL_SUMS])


def make_mixed_questions(config: MixedConfig) -> Questions:
    return Questions(config, MIXED_LEVELS[config.level])


def make_calculator() -> Callable[..., int | str]:
    return calculate


def calculate(
    first: Annotated[int, "a whole number"],
    operation: Literal["+", "-", "*"],
    second: Annotated[int, "a whole number"],
) -> int:
    """Add, subtract or multiply two whole numbers."""
    if operation == "+":
        return first + second
    return first - second if operation == "-" else first * second
