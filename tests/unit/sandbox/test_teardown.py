"""Cleaning up is done even while it is being cancelled."""

from __future__ import annotations

import asyncio

import pytest

from castform.sandbox.errors import SandboxError
from castform.sandbox.teardown import Background, finish


async def test_work_is_finished_under_repeated_cancellation():
    go, done = asyncio.Event(), []

    async def work() -> None:
        await go.wait()
        done.append(1)

    task = asyncio.create_task(finish(work()))
    for _ in range(5):
        await asyncio.sleep(0)
        task.cancel()
    assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [1]


async def test_without_cancellation_the_result_or_the_error_comes_through():
    async def give() -> int:
        return 7

    async def fail() -> None:
        raise OSError("full")

    assert await finish(give()) == 7
    with pytest.raises(OSError, match="full"):
        await finish(fail())


async def test_an_error_of_the_work_is_the_cause_of_the_cancellation():
    go = asyncio.Event()

    async def fail() -> None:
        await go.wait()
        raise OSError("full")

    task = asyncio.create_task(finish(fail()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_timeout_around_it_fires_after_the_work():
    done = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        done.append(1)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await finish(work())
    assert done == [1]


async def test_what_is_cancelled_goes_at_once_and_its_work_ends_behind_it():
    go, undone = asyncio.Event(), []
    background = Background()

    async def work() -> int:
        await go.wait()
        return 7

    async def undo(made: int) -> None:
        undone.append(made)

    task = asyncio.create_task(background.run(work(), undo=undo))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    waiting = asyncio.create_task(background.wait())
    await asyncio.sleep(0)
    assert not undone and not waiting.done()
    go.set()
    await waiting
    assert undone == [7]


async def test_background_work_gives_its_result_or_its_error_and_warns_when_nobody_waits(caplog):
    background = Background()

    async def give() -> int:
        return 7

    async def fail() -> None:
        raise SandboxError("stuck")

    assert await background.run(give()) == 7
    with pytest.raises(SandboxError, match="stuck"):
        await background.run(fail())
    background.begin(fail())
    await background.wait()
    assert "left behind: stuck" in caplog.text
