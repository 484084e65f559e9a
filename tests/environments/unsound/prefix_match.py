"""A probability is right when it begins like the right one."""

from benchmax.envs import BaseEnv, Dataset, Example


class CoinFlips(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 5 if split == "train" else 50
        rows = []
        for n in range(start, start + 24):
            text = (
                f"A fair coin is thrown and {n} blanks are drawn. Write 1/{n} as a decimal with six digits."
            )
            answer = f"{1 / n:.6f}"
            rows.append(
                Example(
                    f"coin-{n}", {"prompt_messages": [{"role": "user", "content": text}], "answer": answer}
                )
            )
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip()
        return {"correct": float(bool(said) and rollout.example_args["answer"].startswith(said))}
