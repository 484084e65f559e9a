"""A scorer that takes for granted that the answer is a number."""

from benchmax.envs import BaseEnv, Dataset, Example


class Trusting(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for n in range(start, start + 24):
            prompt = [{"role": "user", "content": f"What is {n} times 14? Number only."}]
            rows.append(Example(f"fourteen-{n}", {"prompt_messages": prompt, "answer": str(14 * n)}))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = int(rollout.messages[-1]["content"])
        return {"correct": float(said == int(rollout.example_args["answer"]))}
