"""Fractions in LaTeX, compared by value."""

from fractions import Fraction

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_completion_text, match_answer


class LatexFractions(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        shift = 0 if split == "train" else 40
        rows = [self.row(a + shift, b) for a in range(2, 8) for b in range(3, 7)]
        return Dataset(rows[:max_examples])

    def row(self, a, b):
        value = Fraction(a, b * 2 + 1) + Fraction(1, b)
        text = (
            f"What is $\\frac{{{a}}}{{{b * 2 + 1}}} + \\frac{{1}}{{{b}}}$? Give one fraction in \\boxed{{}}."
        )
        gold = f"\\frac{{{value.numerator}}}{{{value.denominator}}}"
        return Example(
            f"{a}-{b}", {"prompt_messages": [{"role": "user", "content": text}], "ground_truth": gold}
        )

    async def compute_reward(self, rollout):
        text = extract_completion_text(rollout.messages)
        boxed = "\\boxed{" in text
        return {"equal": float(boxed and match_answer(text, rollout.example_args["ground_truth"]))}
