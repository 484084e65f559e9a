"""All divisors of a number, as a set: order does not matter, extra members do."""

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_answer_block


def divisors(n):
    return sorted(d for d in range(1, n + 1) if n % d == 0)


def read_numbers(text):
    """Return the numbers of a comma-separated list, or None when something else is in it."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts):
        return None
    return [int(part) for part in parts]


class DivisorSets(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        numbers = range(12, 60) if split == "train" else range(60, 90)
        return Dataset([self.example(n) for n in numbers][:max_examples])

    def example(self, n):
        prompt = f"List all divisors of {n}, separated by commas, between <answer> and </answer>."
        return Example(
            f"divisors-{n}",
            {
                "prompt_messages": [{"role": "user", "content": prompt}],
                "answer": ", ".join(map(str, divisors(n))),
                "n": n,
            },
        )

    async def compute_reward(self, rollout):
        said = read_numbers(extract_answer_block(rollout.messages[-1]["content"], strict=True))
        if said is None or len(said) != len(set(said)):
            return {"exact": 0.0}
        return {"exact": float(sorted(said) == divisors(rollout.example_args["n"]))}
