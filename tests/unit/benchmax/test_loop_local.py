"""One value an event loop, and none kept for a loop that is gone."""

from __future__ import annotations

import asyncio
import gc
import pickle
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
