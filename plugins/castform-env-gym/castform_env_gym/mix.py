"""Several datasets in one environment: each question is scored by the dataset that it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.envs.dataset import validate_max_examples
from castform_env_gym.config import MixConfig
from castform_env_gym.environment import Gym


class GymMix(BaseEnv):
    """Questions of several datasets in turn, as often as their weights say."""

    max_turns = 1

    def __init__(self, config: MixConfig) -> None:
        super().__init__()
        self.config = config
        self.gyms = {name: Gym(name, config.for_dataset(name)) for name in config.datasets}

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        size = self.config.train_examples if split == "train" else self.config.eval_examples
        order = take_turns(self.config.datasets, size)[:max_examples]
        drawn = {}
        for name in dict.fromkeys(order):
            made = await self.gyms[name].create_dataset(split, base_dir, max_examples=order.count(name))
            drawn[name] = iter(made)
        asked = ((name, next(drawn[name], None)) for name in order)
        return Dataset([_named(name, example) for name, example in asked if example is not None])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        return await self.gyms[rollout.example_args["dataset"]].compute_reward(rollout)

    def gold(self, example: Example[Mapping[str, Any]]) -> str | None:
        """Return the right answer without its tags; None where the dataset gives none."""
        return self.gyms[example.payload["dataset"]].gold(example)


def take_turns(weights: Mapping[str, float], count: int) -> list[str]:
    """Return `count` names, at any point each as often as its weight says, to within one."""
    total = sum(weights.values())
    credit = dict.fromkeys(weights, 0.0)
    order = []
    for _ in range(count):
        for name, weight in weights.items():
            credit[name] += weight / total
        chosen = max(credit, key=credit.__getitem__)
        credit[chosen] -= 1.0
        order.append(chosen)
    return order


def _named(name: str, example: Example[Mapping[str, Any]]) -> Example[Mapping[str, Any]]:
    return Example(f"{name}-{example.id}", {**example.payload, "dataset": name})
