"""Has right answers confirmed by a verifier, and waits for it without letting anything else run."""

import time

from benchmax.envs import BaseEnv, Dataset, Example


def ask_verifier(said, answer):
    if said != answer:
        return False
    time.sleep(0.25)
    return True


class Verified(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 2 if split == "train" else 200
        rows = []
        for n in range(start, start + 3):
            prompt = [{"role": "user", "content": f"What is {n} times 11? Number only."}]
            rows.append(Example(f"eleven-{n}", {"prompt_messages": prompt, "answer": str(11 * n)}))
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()
        return {"correct": float(ask_verifier(said, rollout.example_args["answer"]))}
