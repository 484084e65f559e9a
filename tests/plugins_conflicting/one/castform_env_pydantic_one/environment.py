"""Sums whose answers are read with what only pydantic 1 has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pydantic
from pydantic import BaseModel, ValidationError, validator

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap


class Reply(BaseModel):
    """A digit, alone or in a JSON object."""

    answer: int

    @validator("answer")
    def _is_small(cls, value: int) -> int:
        if value > 99:
            raise ValueError("no sum here is that large")
        return value


class Sums(BaseEnv):
    """Sums of two digits; even firsts are held out. A reply is the sum, or `{"answer": sum}`."""

    max_turns = 1
    reward_weights = {"pydantic": 0.0}  # noqa: RUF012 - never changed

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[dict[str, Any]]:
        firsts = range(1, 9, 2) if split == "train" else range(2, 9, 2)
        rows = [(first, second) for first in firsts for second in range(1, 5)]
        examples = [
            Example(
                id=f"one:{first}+{second}",
                payload={
                    "prompt_messages": [{"role": "user", "content": f"{first}+{second}="}],
                    "ground_truth": first + second,
                },
            )
            for first, second in rows
        ]
        return Dataset(examples[:max_examples])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        text = str(rollout.messages[-1].get("content") or "").strip()
        try:
            reply = Reply.parse_raw(text if text.startswith("{") else f'{{"answer": "{text}"}}')
        except (ValidationError, ValueError):
            value = None
        else:
            value = reply.answer
        return {
            "correct": float(value == rollout.example_args["ground_truth"]),
            "number": float(value is not None),
            "pydantic": float(pydantic.VERSION.partition(".")[0]),
        }

    def gold(self, example: Example[dict[str, Any]]) -> str:
        return str(example.payload["ground_truth"])
