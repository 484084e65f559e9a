"""Sort words alphabetically."""

import random

from benchmax.envs import BaseEnv, Dataset, Example

POOL = (
    "amber basil cedar delta ember fable grape hazel ivory jolly karma lemon mango noble olive pearl quilt raven "
    "sugar tulip umber violet walnut xenon yacht zebra"
).split()


class SortWords(BaseEnv):
    max_turns = 1

    def __init__(self, words: int = 5):
        super().__init__()
        self.words = words

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        rng = random.Random({"train": 1, "eval": 2}[split])
        lists = []
        for _ in range(50):
            words = rng.sample(POOL, self.words)
            while words == sorted(words):
                rng.shuffle(words)
            lists.append(words)
        return Dataset([self._row(split, i, words) for i, words in enumerate(lists)][:max_examples])

    def _row(self, split, i, words):
        question = f"Sort these words from A to Z, one per line and nothing else: {', '.join(words)}"
        return Example(
            f"{split}-{i}",
            {
                "prompt_messages": [{"role": "user", "content": question}],
                "ground_truth": "\n".join(sorted(words)),
            },
        )

    async def compute_reward(self, rollout):
        lines = [
            line.strip() for line in (rollout.messages[-1]["content"] or "").splitlines() if line.strip()
        ]
        return {"sorted": float(lines == rollout.example_args["ground_truth"].split("\n"))}
