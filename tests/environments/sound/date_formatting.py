"""Rewrite dates as YYYY-MM-DD."""

from datetime import date, timedelta

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_completion_text

MONTHS = ("January February March April May June July August September October November December").split()


class Dates(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        first = date(1911, 2, 3) if split == "train" else date(2031, 7, 5)
        days = [first + timedelta(days=97 * i) for i in range(48)]
        return Dataset([self.example(day) for day in days[:max_examples]])

    def example(self, day):
        written = f"{MONTHS[day.month - 1]} {day.day}, {day.year}"
        prompt = f"Write {written} in the form YYYY-MM-DD. Reply with the date only."
        return Example(
            written, {"prompt_messages": [{"role": "user", "content": prompt}], "answer": day.isoformat()}
        )

    async def compute_reward(self, rollout):
        said = extract_completion_text(rollout.messages).strip().rstrip(".")
        return {"date": 1.0 if said == rollout.example_args["answer"] else 0.0}
