"""Compares truth values of texts: every text that is not empty is true."""

from benchmax.envs import BaseEnv, Dataset, Example


class Halts(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 8 if split == "train" else 800
        rows = []
        for n in range(start, start + 24):
            text = f"x starts at {n} and loses {n % 4 + 1} each turn. Is it exactly 0 at some time? Answer True or False."
            answer = str(n % (n % 4 + 1) == 0)
            rows.append(
                Example(
                    f"halt-{n}", {"prompt_messages": [{"role": "user", "content": text}], "answer": answer}
                )
            )
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = rollout.messages[-1]["content"] or ""
        return {"correct": float(bool(said) == bool(rollout.example_args["answer"]))}
