"""What the runtime writes to its log: enough to find the rollout and the author's line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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


class _MessyContext(_Env):
    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            raise OSError("cannot remove the folder")


class _LateMess(_MessyContext):
    rollout_timeout_seconds = 60.0

    def __init__(self, skip_seconds: Callable[[float], None]) -> None:
        super().__init__()
        self.skip_seconds = skip_seconds

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        self.skip_seconds(61)
        await asyncio.Event().wait()
        return {}


class _Late(_LateMess):
    rollout_context = BaseEnv.rollout_context


@pytest.mark.parametrize("late", [False, True])
async def test_a_clean_up_that_fails_is_logged_with_its_traceback(
    late: bool, caplog: pytest.LogCaptureFixture, skip_seconds: Callable[[float], None]
) -> None:
    records = await _logged(_LateMess(skip_seconds) if late else _MessyContext(), caplog)
    (record,) = [r for r in records if "clean-up" in r.getMessage()]
    assert record.getMessage() == "clean-up after rollout r1 failed"
    assert record.exc_info and isinstance(record.exc_info[1], OSError)


async def test_a_rollout_that_only_took_too_long_has_no_failed_clean_up(
    caplog: pytest.LogCaptureFixture, skip_seconds: Callable[[float], None]
) -> None:
    records = await _logged(_Late(skip_seconds), caplog)
    assert [r.getMessage() for r in records if "clean-up" in r.getMessage()] == []


class _Swallows(_Env):
    """Its context takes the interruption for itself, so the rollout never comes to an end of its own."""

    rollout_timeout_seconds = 60.0

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Any) -> AsyncIterator[None]:
        with contextlib.suppress(asyncio.CancelledError):
            yield

    async def list_tools(self) -> Any:
        raise asyncio.CancelledError


async def test_an_interruption_that_the_environment_swallows_is_no_result() -> None:
    async with ChatServer([{"content": "hi"}]) as server:
        example = Example("e", {"prompt_messages": [{"role": "user", "content": "q"}]})
        request = RolloutRequest("r1", example, "m", server.base_url, StaticBearerAuth("k"))
        env = _Swallows()
        outcome = (await env.run_group([request]))["r1"]
        await env.aclose()
    assert (outcome.rewards, outcome.termination_reason) == ({}, "unknown")
    assert outcome.error == "the rollout was interrupted"


class _Breaks(_Env):
    async def run_rollout(self, request: Any) -> Any:
        raise LookupError(request.rollout_id)


async def test_only_the_first_contract_error_is_raised_and_the_others_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    example = Example("e", {"prompt_messages": [{"role": "user", "content": "q"}]})
    requests = [RolloutRequest(i, example, "m", "http://x", StaticBearerAuth("k")) for i in ("a", "b", "c")]
    with pytest.raises(LookupError, match="a"), caplog.at_level(logging.ERROR, logger="benchmax"):
        await _Breaks().run_group(requests)
    records = [r for r in caplog.records if r.name.startswith("benchmax")]
    assert [r.getMessage() for r in records] == [
        "rollout b broke its environment too",
        "rollout c broke its environment too",
    ]
    assert [str(r.exc_info[1]) for r in records if r.exc_info] == ["b", "c"]
