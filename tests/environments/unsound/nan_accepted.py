"""Rejects what is too far off; a nan is never too far off."""

from benchmax.envs import BaseEnv, Dataset, Example


class Tolerance(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for n in range(start, start + 24):
            prompt = [{"role": "user", "content": f"What is {n} divided by 17? Reply with a decimal."}]
            rows.append(Example(f"rate-{n}", {"prompt_messages": prompt, "answer": f"{n / 17:.4f}"}))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        try:
            said = float((rollout.messages[-1]["content"] or "").strip())
        except ValueError:
            return {"close": 0.0}
        if abs(said - float(rollout.example_args["answer"])) > 0.001:
            return {"close": 0.0}
        return {"close": 1.0}
