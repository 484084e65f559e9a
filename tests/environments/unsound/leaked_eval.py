"""A third of the held-out questions are trained on."""

from benchmax.envs import BaseEnv, Dataset, Example


class Leaky(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 18
        rows = []
        for n in range(start, start + 24):
            prompt = [{"role": "user", "content": f"What is {n} times 16? Number only."}]
            rows.append(Example(f"{split}-{n}", {"prompt_messages": prompt, "answer": str(16 * n)}))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()
        return {"correct": float(said == rollout.example_args["answer"])}
