"""Extractive answers, judged by whether the answer occurs: the passage itself always does it."""

from benchmax.envs import BaseEnv, Dataset, Example

CITIES = "Rome Oslo Lima Bern Kyiv Doha Baku Riga Suva Apia Lome Male".split()


class Extract(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 1 if split == "train" else 300
        return Dataset([self.row(start + n) for n in range(24)][:max_examples])

    def row(self, n):
        year = 1500 + n * 13 % 500
        text = f"The bridge number {n} in {CITIES[n % 12]} was built in the year {year}. When was it built?"
        return Example(
            f"bridge-{n}", {"prompt_messages": [{"role": "user", "content": text}], "answer": str(year)}
        )

    async def compute_reward(self, rollout):
        said = rollout.messages[-1]["content"] or ""
        return {
            "found": float(
                rollout.example_args["answer"] in said.split() or f"{rollout.example_args['answer']}." in said
            )
        }
