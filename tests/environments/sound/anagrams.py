"""Make any word from the letters; several answers may be right."""

from collections import defaultdict

from benchmax.envs import BaseEnv, Dataset, Example

WORDS = (
    "listen silent enlist tinsel stone notes onset tones stream master bleat table elbow below study dusty night thing "
    "brush shrub charm march cloud could crate trace react cheap peach chain china earth heart angel glean least slate "
    "state taste sadder dreads parsley players rescue secure lemon melon north thorn ocean canoe plates petals"
).split()


def by_letters():
    found = defaultdict(list)
    for word in WORDS:
        found["".join(sorted(word))].append(word)
    return {letters: sorted(words) for letters, words in found.items()}


class Anagrams(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        groups = sorted(by_letters().items())
        chosen = [g for i, g in enumerate(groups) if (i % 4 == 3) == (split == "eval")]
        return Dataset([self.row(letters, words) for letters, words in chosen[:max_examples]])

    def row(self, letters, words):
        text = f"Which English word can be made of all of these letters: {' '.join(letters)}? Reply with one word."
        return Example(letters, {"prompt_messages": [{"role": "user", "content": text}], "words": words})

    def gold(self, example):
        return example.payload["words"][0]

    async def compute_reward(self, rollout):
        said = (rollout.messages[-1]["content"] or "").strip().strip(".").lower()
        return {"word": float(said in rollout.example_args["words"])}
