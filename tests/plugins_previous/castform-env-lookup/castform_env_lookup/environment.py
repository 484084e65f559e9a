"""A question, two tools over the table, at most four turns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.envs.dataset import validate_max_examples
from benchmax.rewards import extract_completion_text
from castform_env_lookup.config import LookupConfig
from castform_env_lookup.questions import Question, draw_questions
from castform_env_lookup.rewards import correct_reward, format_reward, used_tool_reward
from castform_env_lookup.table import COLUMNS, find_name, load_table, search_names

SYSTEM = "Look the facts up with the tools, then answer with the number alone between <answer> and </answer>."


def search(name: Annotated[str, "part of a place's name"]) -> list[str]:
    """List the places whose name contains this text."""
    return search_names(name)


def get(
    place: Annotated[str, "the full name"], column: Literal["height", "founded", "people", "rain"]
) -> int | str:
    """Look up one fact about a place."""
    found = find_name(place)
    if found is None:
        close = search_names(place[:4])
        return f"No place is called {place!r}." + (f" Did you mean {', '.join(close)}?" if close else "")
    if column not in COLUMNS:
        return f"There is no column {column!r}; there are {', '.join(COLUMNS)}."
    return load_table()[found][column]


class Lookup(BaseEnv):
    """Facts about invented places: nothing can be known without a look at the table."""

    max_turns = 4
    max_tool_calls = 8
    tools = (search, get)

    def __init__(self, config: LookupConfig) -> None:
        super().__init__()
        self.config = config

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        config = self.config
        size = config.train_examples if split == "train" else config.eval_examples
        questions = draw_questions(split, lookups=config.lookups, count=size, seed=config.seed)
        return Dataset([make_example(question) for question in questions[:max_examples]])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        reply = extract_completion_text(rollout.messages)
        cells = [tuple(cell) for cell in rollout.example_args["cells"]]
        return {
            "correct": correct_reward(reply, rollout.example_args["ground_truth"]),
            "format": format_reward(reply),
            "used_tool": used_tool_reward(rollout.messages, cells),
        }

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return the right answer in its tags."""
        return f"<answer>{example.payload['ground_truth']}</answer>"


def make_example(question: Question) -> Example[Mapping[str, Any]]:
    """Return the question as a dataset row; `cells` lists what has to be looked up."""
    return Example(
        id=question.id,
        payload={
            "prompt_messages": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": question.text},
            ],
            "ground_truth": question.answer,
            "cells": [list(cell) for cell in question.cells],
        },
    )
