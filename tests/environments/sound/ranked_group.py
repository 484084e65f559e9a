"""Closest estimate wins: siblings are ranked by their distance from the true value."""

import re

from benchmax.envs import BaseEnv, Dataset, Example


def read_estimate(rollout):
    said = re.fullmatch(r"\s*(\d{1,7})\s*", rollout.messages[-1]["content"] or "")
    return int(said.group(1)) if said else None


class ClosestWins(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 21 if split == "train" else 321
        return Dataset([self.row(n) for n in range(start, start + 30)][:max_examples])

    def row(self, n):
        text = f"Estimate {n} times {n + 13} as well as you can. Reply with a whole number only."
        return Example(
            f"times-{n}",
            {"prompt_messages": [{"role": "user", "content": text}], "answer": str(n * (n + 13))},
        )

    async def compute_group_rewards(self, rollouts):
        truth = int(rollouts[0].example_args["answer"])
        distances = {}
        for rollout in rollouts:
            estimate = read_estimate(rollout)
            distances[rollout.rollout_id] = None if estimate is None else abs(estimate - truth)
        known = sorted({d for d in distances.values() if d is not None})
        rewards = {}
        for rollout_id, distance in distances.items():
            if distance is None:
                rewards[rollout_id] = {"rank": 0.0}
            elif distance == 0:
                rewards[rollout_id] = {"rank": 1.0}
            else:
                rewards[rollout_id] = {"rank": 0.5 / (1 + known.index(distance))}
        return rewards
