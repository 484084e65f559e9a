"""A bonus for being quick, read off the wall clock."""

import time

from benchmax.envs import BaseEnv, Dataset, Example


class Quick(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for n in range(start, start + 24):
            prompt = [{"role": "user", "content": f"What is {n} times 9? Number only."}]
            rows.append(Example(f"nine-{n}", {"prompt_messages": prompt, "answer": str(9 * n)}))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        right = (rollout.messages[-1]["content"] or "").strip() == rollout.example_args["answer"]
        return {"correct": float(right), "early": (time.time_ns() // 1000 % 997) / 10000}
