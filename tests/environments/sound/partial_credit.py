"""Fill in a table of squares; each right cell earns its part, wrong and extra ones cost it."""

import re

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import clip01

CELL = re.compile(r"(\d{1,4})=(\d{1,8})")


class Squares(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        starts = range(11, 120, 4) if split == "train" else range(200, 300, 4)
        return Dataset([self.row(s) for s in starts][:max_examples])

    def row(self, start):
        numbers = [start, start + 1, start + 2, start + 3]
        text = f"Give the squares of {', '.join(map(str, numbers))} as number=square, separated by blanks."
        return Example(
            f"squares-{start}",
            {
                "prompt_messages": [{"role": "user", "content": text}],
                "numbers": numbers,
                "answer": " ".join(f"{n}={n * n}" for n in numbers),
            },
        )

    async def compute_reward(self, rollout):
        parts = (rollout.messages[-1]["content"] or "").strip().split()
        cells = [CELL.fullmatch(part) for part in parts[:20]]
        if not cells or len(parts) > 20 or not all(cells):
            return {"cells": 0.0}
        said = [(int(cell.group(1)), int(cell.group(2))) for cell in cells]
        wanted = {(n, n * n) for n in rollout.example_args["numbers"]}
        right = len(set(said) & wanted)
        wrong = len(said) - right
        return {"cells": clip01((right - wrong) / len(wanted))}
