"""Any divisor will do, as long as it is a real one: a checker, not a list of answers."""

import re

from benchmax.envs import BaseEnv, Dataset, Example


class AnyDivisor(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        primes = [53, 59, 61, 67, 71, 73] if split == "train" else [79, 83, 89, 97]
        pairs = [(p, q) for i, p in enumerate(primes) for q in [101, 103, 107, 109][: 4 if i < 6 else 2]]
        return Dataset([self.row(p, q) for p, q in pairs][:max_examples])

    def row(self, p, q):
        n = p * q
        text = f"Name a divisor of {n} other than 1 and {n} itself. Reply with the number only."
        return Example(str(n), {"prompt_messages": [{"role": "user", "content": text}], "n": n, "small": p})

    def gold(self, example):
        return str(example.payload["small"])

    async def compute_reward(self, rollout):
        n = rollout.example_args["n"]
        said = re.fullmatch(r"\s*(\d{1,9})\s*", rollout.messages[-1]["content"] or "")
        if said is None:
            return {"divides": 0.0}
        divisor = int(said.group(1))
        return {"divides": float(1 < divisor < n and n % divisor == 0)}
