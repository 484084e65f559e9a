"""castform: a BaseEnv through castform.evaluate, every rollout, transcript and reward in a run store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp  # noqa: F401  # castform imports it at the first call; every contender is timed after its imports
from arguments import question, read_arguments
from measure import measure

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.rewards import extract_completion_text
from castform.calls import Sampling
from castform.evaluate import evaluate
from castform.remote_endpoint import RemoteEndpoint
from castform.runs import RunStore


class Doubles(BaseEnv):
    """What is i+i?"""

    max_turns = 1

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        prompts = [[{"role": "user", "content": question(i)}] for i in range(self.size)]
        return Dataset(
            [Example(id=str(i), payload={"prompt_messages": prompt}) for i, prompt in enumerate(prompts)]
        )

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        return {"correct": float(extract_completion_text(rollout.messages) == "42")}


async def run(base_url: str, environment: Doubles, concurrency: int, store: RunStore, run_id: str) -> int:
    result = await evaluate(
        environment,
        list(await environment.create_dataset("eval", Path())),
        endpoint=RemoteEndpoint(base_url, "none", "mock"),
        samples=1,
        sampling=Sampling(),
        concurrency=concurrency,
        record=lambda groups: store.add_rollouts(run_id, groups, mode="eval", step=0),
    )
    store.add_eval(run_id, "before", step=0, result=result.as_dict())
    await environment.aclose()
    return sum(example.score == 1.0 for example in result.examples)


def main() -> None:
    arguments = read_arguments()
    with tempfile.TemporaryDirectory() as folder, RunStore.open(home=Path(folder)) as store:
        run_id = store.create_run(kind="eval", name="bench", config={}).run_id
        environment = Doubles(arguments.rollouts)
        measure(
            lambda: asyncio.run(run(arguments.base_url, environment, arguments.concurrency, store, run_id)),
            arguments.rollouts,
        )
        stored = store.count_rollouts(run_id)
        if stored["eval"]["scored"] != arguments.rollouts:
            raise SystemExit(f"the store has {stored}, not {arguments.rollouts} rollouts")


if __name__ == "__main__":
    main()
