"""Requests made at once: results in order, and no work after the first failure."""

from __future__ import annotations

import asyncio

import pytest

from benchmax.rewards.concurrency import gather_or_cancel
from benchmax.rewards.request_ids import make_request_id


async def test_results_come_in_the_order_asked_and_all_run_at_once() -> None:
    together = asyncio.Barrier(3)

    async def answer(number: int) -> int:
        await together.wait()
        return number

    assert await gather_or_cancel(answer(number) for number in (2, 0, 1)) == [2, 0, 1]
    assert await gather_or_cancel([]) == []


async def test_the_first_failure_comes_out_as_it_is_and_stops_the_others() -> None:
    cause = KeyError("the reason")
    stopped: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("first") from cause

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(name)
            raise

    async with asyncio.timeout(20):
        with pytest.raises(ValueError, match="first") as caught:
            await gather_or_cancel([wait("a"), fail(), wait("b")])
    assert caught.value.__cause__ is cause
    assert sorted(stopped) == ["a", "b"]


async def test_cancelling_the_whole_stops_every_part() -> None:
    started = asyncio.Barrier(3)
    stopped: list[str] = []

    async def wait(name: str) -> None:
        await started.wait()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(name)
            raise

    whole = asyncio.ensure_future(gather_or_cancel([wait("a"), wait("b")]))
    await started.wait()
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert sorted(stopped) == ["a", "b"]


def test_a_request_id_follows_from_the_content() -> None:
    assert make_request_id("ranking", "a", "b") == "ranking-59b271ae1bbc"
    assert make_request_id("ranking", "ab") != make_request_id("ranking", "a", "b")
    assert make_request_id("x", "\ud800").startswith("x-")
