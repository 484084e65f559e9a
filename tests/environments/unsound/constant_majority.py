"""Nearly every answer is no."""

from benchmax.envs import BaseEnv, Dataset, Example


class MostlyNo(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 202
        rows = []
        for n in range(start, start + 24):
            prompt = [
                {"role": "user", "content": f"Can {n} be divided by 7 without a rest? Reply with yes or no."}
            ]
            rows.append(
                Example(f"by-seven-{n}", {"prompt_messages": prompt, "answer": "no" if n % 7 else "yes"})
            )
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip().lower()
        return {"correct": float(said == rollout.example_args["answer"])}
