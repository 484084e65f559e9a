"""Answer from numbered notes and cite the one that says it."""

import re

from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_answer_block

PEOPLE = "Ada Ben Cleo Dan Eva Finn Gus Hal Ida Jan Kim Leo Mia Ned Ola Pia Quin Rex Sam Tom".split()
ANSWER = re.compile(r"(\d+) \[note (\d)\]")


class Citations(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 0 if split == "train" else 400
        return Dataset([self.row(start + i) for i in range(40)][:max_examples])

    def row(self, i):
        people = [PEOPLE[(i + k * 7) % 20] for k in range(4)]
        ages = [18 + (i * 11 + k * 17) % 61 for k in range(4)]
        notes = "\n".join(
            f"note {k + 1}: {p} is {a} years old." for k, (p, a) in enumerate(zip(people, ages))
        )
        which = (i * 3) % 4
        prompt = (
            f"{notes}\n\nHow old is {people[which]}? Answer between <answer> and </answer> with the number and "
            "the note that says so, as in 33 [note 2]."
        )
        return Example(
            f"note-{i}",
            {
                "prompt_messages": [{"role": "user", "content": prompt}],
                "answer": f"{ages[which]} [note {which + 1}]",
                "age": ages[which],
                "note": which + 1,
            },
        )

    async def compute_reward(self, rollout):
        said = ANSWER.fullmatch(extract_answer_block(rollout.messages[-1]["content"], strict=True).strip())
        if said is None:
            return {"age": 0.0, "cited": 0.0}
        right = int(said.group(1)) == rollout.example_args["age"]
        return {
            "age": float(right),
            "cited": 0.5 * float(right and int(said.group(2)) == rollout.example_args["note"]),
        }
