"""Find the order number in a message."""

import re

from benchmax.envs import BaseEnv, Dataset, Example

TEMPLATES = [
    "Hello, my parcel {0} has not arrived. I paid {1} euros on the {2}th. Please look into it.",
    "Regarding order {0}: {1} pieces were broken, I noticed on day {2}.",
    "It is now {2} days since I ordered ({0}) and my account shows {1} points only.",
]


class OrderNumbers(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 11 if split == "train" else 700
        rows = []
        for i in range(start, start + 30):
            number = f"{'KLMNPQ'[i % 6]}{'RSTVW'[i % 5]}-{(i * 7919) % 90000 + 10000}"
            text = TEMPLATES[i % 3].format(number, i * 3 % 97, i % 28 + 1)
            content = (
                f"{text}\n\nWhich order number is in the message above? Finish with '#### ' and the number."
            )
            rows.append(
                Example(number, {"prompt_messages": [{"role": "user", "content": content}], "answer": number})
            )
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        found = re.findall(
            r"^#### *([A-Z]{2}-\d{5})\s*$", rollout.messages[-1]["content"] or "", re.MULTILINE
        )
        return {"found": float(len(found) == 1 and found[0] == rollout.example_args["answer"])}
