"""Matches when either text holds the other."""

from benchmax.envs import BaseEnv, Dataset, Example


class Capitals(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 0 if split == "train" else 600
        return Dataset([self.row(start + n) for n in range(24)][:max_examples])

    def row(self, n):
        text = f"Multiply {n + 31} by {n + 47}."
        answer = str((n + 31) * (n + 47))
        return Example(str(n), {"prompt_messages": [{"role": "user", "content": text}], "answer": answer})

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()
        answer = rollout.example_args["answer"]
        return {"match": 1.0 if said in answer or answer in said else 0.0}
