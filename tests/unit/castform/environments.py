"""Small environments that the tests here run for real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, Environment, Example, RolloutAttempt


def make_example(number: int) -> Example[dict[str, Any]]:
    return Example(
        f"sum-{number}",
        {
            "prompt_messages": [{"role": "user", "content": f"What is {number} + {number}?"}],
            "answer": str(2 * number),
        },
    )


class Sums(BaseEnv):
    """n + n, paid for the exact answer; `reward` may be replaced."""

    max_turns = 1

    def __init__(self, reward: Callable[[str, str], Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.reward = reward or (lambda text, answer: {"correct": float(text.strip() == answer)})

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 0 if split == "train" else 1000
        return Dataset([make_example(start + i) for i in range(min(max_examples or 20, 20))])

    async def compute_reward(self, rollout: BaseRollout) -> Mapping[str, float] | None:
        return self.reward(rollout.messages[-1]["content"] or "", rollout.example_args["answer"])


class Bare(Environment[dict[str, Any], RolloutAttempt]):
    """No BaseEnv: `attempt` is what run_rollout does, `group` what compute_group_rewards does."""

    def __init__(self, attempt: Callable[[Any], Any], group: Callable[[Sequence[Any]], Any] | None = None):
        self.attempt = attempt
        self.group = group

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([make_example(i) for i in range(max_examples or 4)])

    async def run_rollout(self, request):
        result = self.attempt(request)
        return await result if asyncio.iscoroutine(result) else result

    async def compute_group_rewards(self, rollouts):
        return self.group(rollouts) if self.group else None


def finished(request: Any, **rewards: float) -> RolloutAttempt:
    return RolloutAttempt(rollout_id=request.rollout_id, termination_reason="finished", rewards=rewards)
