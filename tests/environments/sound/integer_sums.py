"""Two-digit sums; the answer is the last whole number of an <answer> block."""

import random
import re

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_answer_block, extract_completion_text


class IntegerSums(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        rng = random.Random(f"sums-{split}")
        pairs = (
            [(a, b) for a in range(10, 60) for b in range(10, 60) if (a * 60 + b) % 5 == 0]
            if split == "eval"
            else [(a, b) for a in range(10, 60) for b in range(10, 60) if (a * 60 + b) % 5]
        )
        chosen = rng.sample(pairs, 200)
        return Dataset([self.make_example(a, b) for a, b in chosen[:max_examples]])

    def make_example(self, a, b):
        text = f"What is {a} + {b}? Put the number between <answer> and </answer>."
        return Example(
            id=f"{a}+{b}",
            payload={"prompt_messages": [{"role": "user", "content": text}], "ground_truth": str(a + b)},
        )

    async def compute_reward(self, rollout):
        said = extract_answer_block(extract_completion_text(rollout.messages), strict=True)
        right = re.fullmatch(r"\s*(\d+)\s*", said)
        return {"correct": float(bool(right) and right.group(1) == rollout.example_args["ground_truth"])}
