"""One value an event loop, and none kept for a loop that is gone."""

from __future__ import annotations

import asyncio
import gc
import pickle
import sys
import threading
import weakref

from benchmax.envs.loop_local import LoopLocal


class Thing:
    """Something that belongs to the loop in which it was made."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()


def test_every_loop_has_its_own_and_keeps_it() -> None:
    things = LoopLocal(Thing)

    async def twice() -> tuple[Thing, Thing]:
        return things.get(), things.get()

    first, again = asyncio.run(twice())
    other, _ = asyncio.run(twice())
    assert first is again
    assert other is not first


def test_a_value_goes_with_its_loop_once_another_is_made() -> None:
    things = LoopLocal(Thing)

    async def make() -> weakref.ref[Thing]:
        return weakref.ref(things.get())

    gone = asyncio.run(make())
    kept = asyncio.run(make())
    gc.collect()
    assert gone() is None
    assert kept() is not None


async def test_what_was_taken_out_is_made_anew() -> None:
    things = LoopLocal(Thing)
    assert things.pop() is None
    first = things.get()
    assert things.pop() is first
    assert things.get() is not first


async def test_a_copy_starts_empty() -> None:
    things = LoopLocal(Thing)
    first = things.get()
    assert pickle.loads(pickle.dumps(things)).get() is not first


def test_threads_with_loops_of_their_own_never_lose_a_value() -> None:
    things = LoopLocal(Thing)
    lost: list[str] = []

    async def look_often() -> None:
        first = things.get()
        for _ in range(5):
            await asyncio.sleep(0)
            if things.get() is not first:
                lost.append("another value in the same loop")

    def run_loops() -> None:
        for _ in range(40):
            asyncio.run(look_often())

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=run_loops) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    assert lost == []
