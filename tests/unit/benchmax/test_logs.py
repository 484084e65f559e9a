"""What the runtime writes to its log: enough to find the rollout and the author's line."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from benchmax.envs import BaseEnv, BaseRollout, Dataset, Example, RolloutRequest, StaticBearerAuth
from benchmax.envs.logging import current_group_ids, current_rollout_id
from benchmax.testing import ChatServer


class _Env(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split: Any, base_dir: Any, *, max_examples: Any = None) -> Dataset[Any]:
        return Dataset([])


class _BadReward(_Env):
    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        raise KeyError("gone")


class _BadGroup(_Env):
    async def compute_group_rewards(self, rollouts: Any) -> Any:
        raise LookupError("no scorer")


class _Twice(_Env):
    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        return {"x": 1.0}

    async def compute_group_rewards(self, rollouts: Any) -> Any:
        return {rollout.rollout_id: {"x": 1.0} for rollout in rollouts}


async def _logged(env: BaseEnv, caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    async with ChatServer([{"content": "hi"}]) as server:
        example = Example("e", {"prompt_messages": [{"role": "user", "content": "q"}]})
        request = RolloutRequest("r1", example, "m", server.base_url, StaticBearerAuth("k"))
        with caplog.at_level(logging.WARNING, logger="benchmax"):
            await env.run_group([request])
        await env.aclose()
    return [record for record in caplog.records if record.name.startswith("benchmax")]


async def test_a_reward_that_raises_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    records = await _logged(_BadReward(), caplog)
    (record,) = [r for r in records if "compute_reward" in r.getMessage()]
    assert record.getMessage() == "compute_reward failed for r1"
    assert record.exc_info and isinstance(record.exc_info[1], KeyError)


async def test_a_group_hook_that_raises_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = await _logged(_BadGroup(), caplog)
    (record,) = [r for r in records if "compute_group_rewards" in r.getMessage()]
    assert record.getMessage() == "compute_group_rewards failed"
    assert record.exc_info and isinstance(record.exc_info[1], LookupError)


async def test_rewards_that_cannot_be_merged_are_logged_under_their_rollout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[Any] = []
    watcher = logging.Handler()
    watcher.emit = lambda record: seen.append((current_rollout_id(), record.getMessage()))  # type: ignore[method-assign]
    logger = logging.getLogger("benchmax.envs.group_scoring")
    logger.addHandler(watcher)
    try:
        await _logged(_Twice(), caplog)
    finally:
        logger.removeHandler(watcher)
    assert seen == [
        (
            "r1",
            "rewards of rollout r1 cannot be used: compute_reward and compute_group_rewards both return ['x']",
        )
    ]


def test_nothing_is_current_outside_of_a_rollout() -> None:
    assert current_rollout_id() is None
    assert current_group_ids() == ()
