"""What other people's environments can take from here: questions, the two tools and a rubric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmax.envs import Dataset, DatasetSplit, Example
from benchmax.rewards.rubric import Rubric
from castform_env_lookup.config import LookupConfig
from castform_env_lookup.environment import get, make_example, search
from castform_env_lookup.questions import draw_questions


class Questions:
    """A dataset: `question`, `cells` (place and column to look up) and `ground_truth`, and a prompt."""

    def __init__(self, config: LookupConfig) -> None:
        self._config = config

    def create(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the questions of a split; held-out places never occur in training."""
        config = self._config
        size = config.train_examples if split == "train" else config.eval_examples
        questions = draw_questions(split, lookups=config.lookups, count=size, seed=config.seed)
        made = [(question, make_example(question)) for question in questions[:max_examples]]
        return Dataset(
            [Example(row.id, {**row.payload, "question": question.text}) for question, row in made]
        )


def make_search() -> Callable[..., list[str]]:
    return search


def make_get() -> Callable[..., int | str]:
    return get


def make_brevity() -> Rubric:
    return Rubric(
        title="Says only what was asked",
        description="The answer gives the fact that was asked for and nothing beside it.",
        score_map={0: "much beside it", 1: "a little beside it", 2: "nothing beside it"},
    )
