"""Run groups of the acting environment, and wait for the files that it writes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmax.auth import StaticBearerAuth
from benchmax.envs import Example, RolloutRequest
from castform.calls import Sampling
from castform.endpoint import SessionGrant
from castform.rollouts import run_group

ACTING = str(Path(__file__).parent / "acting.py")


class Sessions:
    """An endpoint for environments that ask no model."""

    model = "none"

    async def open_session(self, spec):
        return SessionGrant(base_url="http://127.0.0.1:9/v1", api_key="key", model="none")

    async def collect(self, session_id):
        return ()

    async def close_session(self, session_id):
        return None


async def play(environment, act, *, group_id="g", size=1, timeout=60.0, example=None):
    """Run one group whose rollouts all do `act`, and return its rollouts."""
    group = await run_group(
        environment,
        example or Example(act, {"act": act}),
        endpoint=Sessions(),
        split="train",
        group_id=group_id,
        size=size,
        sampling=Sampling(),
        seed=0,
        weights={},
        timeout_seconds=timeout,
    )
    return group.rollouts


async def appear(path, tries=12_000):
    """Wait until a file is there, and return what is in it."""
    for _ in range(tries):
        if path.exists() and (text := path.read_text()):
            return text
        await asyncio.sleep(0.005)
    raise AssertionError(f"{path} never came")


def make_request(example, rollout_id="alone"):
    """Return a request that names a model which nobody asks."""
    return RolloutRequest(rollout_id, example, "none", "http://127.0.0.1:9/v1", StaticBearerAuth("key"))
