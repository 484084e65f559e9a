"""One-shot questions whose reward compares two texts by their edit distance, in plain Python.

Such a reward is what many environments have: some milliseconds of one core that await nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap


class Edits(BaseEnv):
    """Texts of `characters` characters; with 0 the reward computes nothing. `sleep` blocks so many seconds."""

    max_turns = 1

    def __init__(self, characters: int = 200, score_in_thread: bool = False) -> None:
        super().__init__()
        self.characters = characters
        self.score_in_thread = score_in_thread

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        return Dataset([self._make_example(number) for number in range(max_examples or 64)])

    def _make_example(self, number: int) -> Example[Mapping[str, Any]]:
        draw = random.Random(number)
        texts = ["".join(draw.choices("abcde ", k=self.characters)) for _ in range(2)]
        return Example(
            f"text-{number}",
            {
                "prompt_messages": [{"role": "user", "content": f"Rewrite text {number}."}],
                "reference": texts[0],
                "reply": texts[1],  # the mock endpoint's own is too short to compare
                "sleep": 0.0,
            },
        )

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        wanted = rollout.example_args
        if wanted["sleep"]:
            time.sleep(wanted["sleep"])  # noqa: ASYNC251 - what a blocking reward does
        distance = edit_distance(wanted["reference"], wanted["reply"])
        return {"close": 1 - distance / max(self.characters, 1)}


def edit_distance(one: str, other: str) -> int:
    """Return how many insertions, deletions and replacements lie between two texts."""
    before = list(range(len(other) + 1))
    for place, character in enumerate(one, start=1):
        row = [place]
        for column, against in enumerate(other, start=1):
            row.append(min(before[column] + 1, row[-1] + 1, before[column - 1] + (character != against)))
        before = row
    return before[-1]
