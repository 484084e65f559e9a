"""Sums over the prices of a shop: a question, two tools, a few turns."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file
from pathlib import Path
from typing import Any

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    JsonlDataset,
    JsonRow,
    RewardMap,
)
from benchmax.rewards import extract_completion_text, match_answer

from PACKAGE_NAME.catalogue import DATA, price, search

SYSTEM = "Look prices up with the tools, then give the sum alone between <answer> and </answer>."


class Shop(BaseEnv):
    """Asks what some articles cost together.

    Prices are made up, so that only a look gives them. Nothing is paid for the look itself:
    what is paid for calling tools is earned by calling them for nothing.
    """

    max_turns = 5
    max_tool_calls = 8
    tools = (search, price)

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        with as_file(DATA / f"{split}.jsonl") as path:
            return JsonlDataset(
                path, row_to_example=make_example, max_examples=max_examples
            )

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        reply = extract_completion_text(rollout.messages)
        return {"correct": match_answer(reply, rollout.example_args["ground_truth"])}

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return a reply that must be paid in full: checks play it, and wrong ones beside it."""
        return f"<answer>{example.payload['ground_truth']}</answer>"


def make_example(row: JsonRow) -> Example[Mapping[str, Any]]:
    """Return a row as the model sees it; what is not in `prompt_messages` only the reward sees."""
    return Example(
        id=row["id"],
        payload={
            "prompt_messages": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": row["question"]},
            ],
            "ground_truth": row["sum"],
        },
    )
