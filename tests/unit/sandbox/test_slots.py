"""A cap that counts those that are starting."""

from __future__ import annotations

import asyncio
import threading

import pytest

from castform.sandbox.errors import UsageError
from castform.sandbox.slots import Slots


async def test_never_more_than_the_limit_and_everybody_gets_a_turn():
    slots, now, most, served = Slots(3), 0, 0, 0

    async def work() -> None:
        nonlocal now, most, served
        async with slots.hold():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            served += 1

    await asyncio.gather(*(work() for _ in range(50)))
    assert (most, served, slots.taken) == (3, 50, 0)


async def test_first_come_first_served():
    slots, order = Slots(1), []
    await slots.take()

    async def wait(number: int) -> None:
        await slots.take()
        order.append(number)
        slots.give_back()

    tasks = [asyncio.create_task(wait(n)) for n in range(5)]
    await asyncio.sleep(0)
    slots.give_back()
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("granted_first", [False, True])
async def test_a_cancelled_wait_takes_no_slot(granted_first):
    slots = Slots(1)
    await slots.take()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    if granted_first:
        slots.give_back()
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not granted_first:
        slots.give_back()
    assert slots.taken == 0


def test_threads_with_loops_of_their_own_share_the_cap():
    slots, lock, now, most = Slots(2), threading.Lock(), 0, 0

    async def work() -> None:
        nonlocal now, most
        async with slots.hold():
            with lock:
                now += 1
                most = max(most, now)
            await asyncio.sleep(0.001)
            with lock:
                now -= 1

    async def several() -> None:
        await asyncio.gather(*(work() for _ in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (most, slots.taken) == (2, 0)


def test_a_cap_below_one_is_refused():
    with pytest.raises(UsageError, match="starts none"):
        Slots(0)
