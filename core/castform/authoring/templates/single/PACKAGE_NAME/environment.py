"""Roman numerals: one question, one reply, one reward."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import as_file, files
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
from pydantic import BaseModel, ConfigDict

DATA = files("PACKAGE_NAME") / "data"
"""Inside the package, so that it is in the wheel."""
SYSTEM = "Answer with the number alone between <answer> and </answer>."
SOLVED = [
    {"role": "user", "content": "Which number is CCCLXXIII?"},
    {"role": "assistant", "content": "<answer>373</answer>"},
]


class RomanNumeralsConfig(BaseModel):
    """What a user can set, as in `--set environment.args.solved_example=false`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    solved_example: bool = True
    """Show one solved question first. A small model finds the form of the answer by it."""


class RomanNumerals(BaseEnv):
    """Asks which number a Roman numeral is."""

    max_turns = 1

    def __init__(self, config: RomanNumeralsConfig) -> None:
        super().__init__()
        self.config = config

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        with as_file(DATA / f"{split}.jsonl") as path:
            return JsonlDataset(
                path, row_to_example=self.make_example, max_examples=max_examples
            )

    def make_example(self, row: JsonRow) -> Example[Mapping[str, Any]]:
        """Return a row as the model sees it; what is not in `prompt_messages` only the reward sees."""
        question = {"role": "user", "content": f"Which number is {row['numeral']}?"}
        solved = SOLVED if self.config.solved_example else []
        return Example(
            id=row["numeral"],
            payload={
                "prompt_messages": [
                    {"role": "system", "content": SYSTEM},
                    *solved,
                    question,
                ],
                "ground_truth": row["number"],
            },
        )

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        reply = extract_completion_text(rollout.messages)
        return {"correct": match_answer(reply, rollout.example_args["ground_truth"])}

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return a reply that must be paid in full: checks play it, and wrong ones beside it."""
        return f"<answer>{example.payload['ground_truth']}</answer>"
