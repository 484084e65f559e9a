"""Adds a little noise to the score, from the generator that everybody shares."""

import random

from benchmax.envs import BaseEnv, Dataset, Example


class Noisy(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for n in range(start, start + 24):
            prompt = [{"role": "user", "content": f"What is {n} times 7? Number only."}]
            rows.append(Example(f"seven-{n}", {"prompt_messages": prompt, "answer": str(7 * n)}))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        right = (rollout.messages[-1]["content"] or "").strip() == rollout.example_args["answer"]
        return {"correct": float(right), "jitter": random.random() / 1000}
