"""Summarise in at most twelve words: overlap with a reference, cut off where it is too long."""

import re

from benchmax.envs import BaseEnv, Dataset, Example

SUBJECTS = ["council", "museum", "harbour", "railway", "orchestra", "hospital", "library", "bakery"]
VERBS = [("closes", "its northern hall"), ("opens", "a second garden"), ("repairs", "the old clock")]
REASONS = [
    "because money is short",
    "after a year of protest",
    "to attract more visitors",
    "since the roof leaks",
]


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def f1(said, wanted):
    common = len(set(said) & set(wanted))
    if not common:
        return 0.0
    precision, recall = common / len(said), common / len(set(wanted))
    return 2 * precision * recall / (precision + recall)


class ShortSummary(BaseEnv):
    max_turns = 1
    limit = 12

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        rows = [(s, v, r) for s in SUBJECTS for v in VERBS for r in REASONS]
        chosen = rows[::2] if split == "train" else rows[1::2]
        return Dataset([self.row(*parts) for parts in chosen[:max_examples]])

    def row(self, subject, verb, reason):
        reference = f"The {subject} {verb[0]} {verb[1]} {reason}"
        story = (
            f"It was a long evening and many people had come to listen. In the end the {subject} of the town had to "
            f"make up its mind. As everybody knows by now, it {verb[0]} {verb[1]}, {reason}, whatever the "
            "neighbours may say about it in the weeks that follow."
        )
        prompt = f"Summarise in one sentence of at most {self.limit} words.\n\n{story}"
        return Example(
            f"{subject}-{verb[0]}-{REASONS.index(reason)}",
            {"prompt_messages": [{"role": "user", "content": prompt}], "ground_truth": reference},
        )

    async def compute_reward(self, rollout):
        said = words(rollout.messages[-1]["content"] or "")
        if len(said) > self.limit:
            return {"overlap": 0.0}
        return {"overlap": f1(said, words(rollout.example_args["ground_truth"]))}
