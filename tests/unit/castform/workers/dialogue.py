"""A dialogue with tools, per-rollout state, group rewards and payloads of every kind."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap

PLAIN, OBJECTS = "plain", "objects"


@dataclass(frozen=True)
class Range:
    """Bounds, both included."""

    low: int
    high: int


class Guessing(BaseEnv):
    """Guess a number: higher or lower is all that is said."""

    max_turns = 4

    def __init__(self, payloads: str = PLAIN, seed: int = 0) -> None:
        super().__init__()
        self.payloads = payloads
        self.seed = seed
        self.tools = [self.guess]
        self.made: list[str] = []

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        draw = random.Random(f"{self.seed}-{split}")
        rows = [self._make_row(draw.randint(1, 9), n) for n in range(6)]
        self.made.append(split)
        return Dataset([Example(f"{split}-{n}", row) for n, row in enumerate(rows)][:max_examples])

    def _make_row(self, secret: int, number: int) -> dict[str, Any]:
        row: dict[str, Any] = {
            "prompt_messages": [
                {"role": "user", "content": f"Guess {number}: a number from 1 to 9. é\u2028"}
            ],
            "secret": secret,
            "share": secret / 7,
            "tags": ("odd", "even"),
        }
        if self.payloads == OBJECTS:
            row["bounds"] = Range(1, 9)
        return row

    def guess(self, number: int) -> str:
        """Try a number."""
        return f"you said {number}"

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        if self.payloads == OBJECTS and rollout.example_args["bounds"] != Range(1, 9):
            raise TypeError("the bounds are gone")
        if not isinstance(rollout.example_args["tags"], tuple) or self.made != ["train"]:
            raise TypeError("this is not the environment that it was")
        said = str(rollout.messages[-1].get("content"))
        if said == "crash":
            raise RuntimeError("the reward has a defect")
        return {
            "close": 1 / (1 + abs(len(said) - rollout.example_args["secret"])),
            "turns": len(rollout.messages),
        }

    async def compute_group_rewards(self, rollouts: Sequence[BaseRollout]) -> Mapping[str, RewardMap]:
        longest = max(len(rollout.messages) for rollout in rollouts)
        return {r.rollout_id: {"longest": float(len(r.messages) == longest)} for r in rollouts}

    def gold(self, example: Example[Mapping[str, Any]]) -> object:
        bounds = example.payload.get("bounds")
        return (example.payload["secret"], "in words") if bounds is None else bounds
