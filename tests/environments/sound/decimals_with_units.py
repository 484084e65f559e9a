"""Convert lengths; a number with its unit, compared in metres."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap

METRES = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0}
ANSWER = re.compile(r"answer\s*:\s*(\d+(?:\.\d+)?)\s*(mm|cm|km|m)\s*\.?\s*$", re.IGNORECASE)


class Lengths(BaseEnv):
    max_turns = 1

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        first = 3 if split == "train" else 1000
        rows = []
        for number in range(first, first + 40):
            source, target = [("km", "m"), ("m", "cm"), ("cm", "mm"), ("m", "km")][number % 4]
            length = number + 0.25
            rows.append(make_row(length, source, target))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        said = ANSWER.search(rollout.messages[-1]["content"] or "")
        if said is None:
            return {"accuracy": 0.0}
        wanted = rollout.example_args
        value = float(said.group(1)) * METRES[said.group(2).lower()]
        return {"accuracy": 1.0 if math.isclose(value, wanted["metres"], rel_tol=1e-6) else 0.0}

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        return f"Answer: {example.payload['answer']}"


def make_row(length: float, source: str, target: str) -> Example[Mapping[str, Any]]:
    metres = length * METRES[source]
    converted = round(metres / METRES[target], 9)
    prompt = f"How much is {length} {source} in {target}? End with a line like 'Answer: 12.5 cm'."
    return Example(
        f"{length}{source}-{target}",
        {
            "prompt_messages": [{"role": "user", "content": prompt}],
            "metres": metres,
            "answer": f"{converted:g} {target}" if converted < 1e6 else f"{converted:.2f} {target}",
        },
    )
