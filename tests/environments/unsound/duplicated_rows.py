"""Eight questions, three times each."""

from benchmax.envs import BaseEnv, Dataset, Example


class Repeats(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for i in range(24):
            n = start + i % 8
            prompt = [{"role": "user", "content": f"What is {n} times 15? Number only."}]
            rows.append(Example(f"{split}-{i}", {"prompt_messages": prompt, "answer": str(15 * n)}))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()
        return {"correct": float(said == rollout.example_args["answer"])}
