"""Rewards that block and that compute, and rollouts that measure how late their event loop wakes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap

PAUSE_SECONDS = 0.002


class Lag(BaseEnv):
    """`sleep` and `burn` hold their thread for a while when they are scored; `probe` measures meanwhile."""

    max_turns = 1

    def __init__(self, score_in_thread: bool = False, seconds: float = 1.0) -> None:
        super().__init__()
        self.score_in_thread = score_in_thread
        self.seconds = seconds
        self.lags: dict[str, list[float]] = {}

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        rows = [{"prompt_messages": [{"role": "user", "content": act}]} for act in ("sleep", "burn", "probe")]
        return Dataset([Example(row["prompt_messages"][0]["content"], row) for row in rows])

    @asynccontextmanager
    async def rollout_context(
        self, rollout_id: str, example: Example[Mapping[str, Any]]
    ) -> AsyncIterator[None]:
        if example.id == "probe":
            self.lags[rollout_id] = await sample_lags(self.seconds)
        yield

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        act = rollout.messages[0]["content"]
        if act == "sleep":
            time.sleep(self.seconds)  # noqa: ASYNC251 - what a blocking reward does
        elif act == "burn":
            until = time.perf_counter() + self.seconds
            while time.perf_counter() < until:
                sum(range(1000))
        return {str(place): lag for place, lag in enumerate(self.lags.pop(rollout.rollout_id, [1.0]))}


async def sample_lags(seconds: float) -> list[float]:
    """Return by how many seconds each short pause was too long."""
    lags = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        await asyncio.sleep(PAUSE_SECONDS)
        lags.append(max(0.0, time.perf_counter() - began - PAUSE_SECONDS))
    return lags
