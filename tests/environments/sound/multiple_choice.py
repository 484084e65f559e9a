"""Capitals, four choices, one letter. The right letter is spread evenly."""

import re

from benchmax.envs import BaseEnv, Dataset, Example

CAPITALS = {
    "France": "Paris",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Peru": "Lima",
    "Norway": "Oslo",
    "Egypt": "Cairo",
    "Cuba": "Havana",
    "Chile": "Santiago",
    "Ghana": "Accra",
    "Iran": "Tehran",
    "Italy": "Rome",
    "Nepal": "Kathmandu",
    "Poland": "Warsaw",
    "Spain": "Madrid",
    "Sweden": "Stockholm",
    "Syria": "Damascus",
    "Tunisia": "Tunis",
    "Greece": "Athens",
    "Austria": "Vienna",
    "Finland": "Helsinki",
    "Hungary": "Budapest",
    "Ireland": "Dublin",
    "Jordan": "Amman",
    "Lebanon": "Beirut",
    "Libya": "Tripoli",
    "Mali": "Bamako",
    "Oman": "Muscat",
    "Qatar": "Doha",
    "Romania": "Bucharest",
    "Serbia": "Belgrade",
    "Turkey": "Ankara",
    "Uganda": "Kampala",
}
LETTERS = "ABCD"


class Capitals(BaseEnv):
    """A lone letter, possibly in brackets or with a full stop, counts; anything longer does not."""

    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        names = list(CAPITALS)
        places = range(24) if split == "train" else range(24, 32)
        return Dataset([self.row(names, i) for i in places][:max_examples])

    def row(self, names, i):
        right = i % 4
        others = [CAPITALS[names[(i + step) % len(names)]] for step in (5, 11, 17)]
        options = [*others[:right], CAPITALS[names[i]], *others[right:]]
        lines = "\n".join(f"{letter}) {city}" for letter, city in zip(LETTERS, options))
        text = f"What is the capital of {names[i]}?\n{lines}\nAnswer with one letter."
        return Example(
            names[i], {"prompt_messages": [{"role": "user", "content": text}], "answer": LETTERS[right]}
        )

    async def compute_reward(self, rollout):
        said = re.fullmatch(r"\W*([A-D])\W*", rollout.messages[-1]["content"] or "")
        return {"choice": 1.0 if said and said.group(1) == rollout.example_args["answer"] else 0.0}
