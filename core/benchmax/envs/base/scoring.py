"""Ask an environment for a reward, on the event loop or, where it says so, beside it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmax.envs.base.hooks import await_hook
from benchmax.envs.base.rollout import BaseRollout
from benchmax.envs.loop_local import LoopLocal
from benchmax.envs.worker_thread import call_in_thread

if TYPE_CHECKING:
    from benchmax.envs.base.env import BaseEnv

SCORING_THREADS = 8
"""Rewards of one environment that run in threads at the same time; more of them only slow each other down."""


async def ask_for_reward(env: BaseEnv, rollout: BaseRollout) -> Any:  # as the author returns it
    """Return what `compute_reward` returns; raises what it raises.

    With `score_in_thread` it runs in a thread of its own with an event loop of its own, so that
    one that computes or blocks holds up no other rollout. A thread cannot be stopped: after the
    rollout's time limit it is left behind.
    """
    if not env.score_in_thread:
        return await await_hook(env.compute_reward(rollout))
    turns: LoopLocal[asyncio.Semaphore] | None = env.__dict__.get("_scoring_turns")
    if turns is None:
        turns = env.__dict__["_scoring_turns"] = LoopLocal(partial(asyncio.Semaphore, SCORING_THREADS))
    async with turns.get():
        return await call_in_thread(_score_here, {"env": env, "rollout": rollout})


def _score_here(env: BaseEnv, rollout: BaseRollout) -> object:
    return asyncio.run(_score_and_close(env, rollout))


async def _score_and_close(env: BaseEnv, rollout: BaseRollout) -> object:
    try:
        return await await_hook(env.compute_reward(rollout))
    finally:
        await env.model_client.aclose()  # of this loop, which ends here
