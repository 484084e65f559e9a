"""Numbers as Roman numerals."""

from benchmax.envs import BaseEnv, Dataset, Example

PARTS = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
]


def to_roman(number):
    text = ""
    for value, letters in PARTS:
        text += letters * (number // value)
        number %= value
    return text


class Roman(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        numbers = range(13, 1300, 29) if split == "train" else range(1306, 2500, 37)
        examples = [
            Example(
                f"roman-{n}",
                {
                    "prompt_messages": [
                        {"role": "user", "content": f"Write {n} as a Roman numeral inside \\boxed{{}}."}
                    ],
                    "answer": to_roman(n),
                },
            )
            for n in numbers
        ]
        return Dataset(examples[:max_examples])

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"] or ""
        start = text.rfind("\\boxed{")
        end = text.find("}", start)
        said = text[start + 7 : end].strip() if start >= 0 and end > start else ""
        return {"roman": float(said == rollout.example_args["answer"])}
