"""Counts mistakes; who says nothing makes none."""

from benchmax.envs import BaseEnv, Dataset, Example


class FewMistakes(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 4 if split == "train" else 400
        rows = []
        for n in range(start, start + 24):
            text = f"List the three numbers after {n}, one per line."
            answer = "\n".join(str(n + i) for i in (1, 2, 3))
            rows.append(
                Example(
                    f"after-{n}", {"prompt_messages": [{"role": "user", "content": text}], "answer": answer}
                )
            )
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        right = rollout.example_args["answer"].split("\n")
        lines = (rollout.messages[-1]["content"] or "").split()
        mistakes = sum(line not in right for line in lines) + sum(lines.count(r) > 1 for r in right)
        return {"clean": 1.0 if mistakes == 0 else 0.0}
