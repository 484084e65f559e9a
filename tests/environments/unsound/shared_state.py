"""Keeps the running example on the environment, where the next rollout overwrites it."""

from contextlib import asynccontextmanager

from benchmax.envs import BaseEnv, Dataset, Example


class Shared(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for n in range(start, start + 24):
            prompt = [{"role": "user", "content": f"What is {n} times 12? Number only."}]
            rows.append(Example(f"twelve-{n}", {"prompt_messages": prompt, "answer": str(12 * n)}))
        return Dataset(rows[:max_examples])

    @asynccontextmanager
    async def rollout_context(self, rollout_id, example):
        self.attempts = 0 if getattr(self, "current", None) != example.id else self.attempts + 1
        self.current = example.id
        yield

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()
        right = said == rollout.example_args["answer"]
        return {"correct": float(right) / (1 + self.attempts)}
