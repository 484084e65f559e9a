"""The workload as an environment of castform, used by its path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workload import make_prompts, reward

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.rewards import extract_completion_text


class Sums(BaseEnv):
    max_turns = 1

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        examples = [
            Example(id=f"{split}-{place}", payload={"prompt_messages": prompt})
            for place, prompt in enumerate(make_prompts(split))
        ]
        return Dataset(examples[:max_examples])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        return {"hash": reward(extract_completion_text(rollout.messages))}
