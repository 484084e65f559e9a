"""One switch ends a run early, whoever turns it on."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from castform_trainer.learning.stop import StopSwitch


async def forever():
    await asyncio.Event().wait()


async def value():
    return 7


async def test_guarded_work_gives_its_result():
    assert await StopSwitch().guard(value()) == 7


async def test_guarded_work_is_cancelled_when_the_switch_goes_on():
    stop = StopSwitch()
    ended = []

    async def work():
        try:
            await forever()
        finally:
            ended.append(True)

    asyncio.get_running_loop().call_soon(stop.turn_on, "requested")
    assert await stop.guard(work()) is None
    assert (stop.reason, ended) == ("requested", [True])


async def test_passing_the_deadline_ends_the_work_but_not_what_is_guarded_later():
    stop = StopSwitch(clock=lambda: 100.0)
    assert await stop.guard(forever(), deadline=100.0) is None
    assert stop.reason == "time"
    assert await stop.guard(value()) == 7


async def test_a_signal_after_the_time_limit_still_counts():
    stop = StopSwitch()
    stop.turn_on("time")
    stop.turn_on("signal")
    assert stop.reason == "signal"
    assert await stop.guard(forever()) is None


async def test_what_the_work_raises_is_raised():
    async def broken():
        raise KeyError("x")

    with pytest.raises(KeyError):
        await StopSwitch().guard(broken())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_turns_the_switch_on(number):
    stop = StopSwitch()
    with stop.on_signals():
        os.kill(os.getpid(), number)
        assert await stop.guard(forever()) is None
    assert stop.reason == "signal"


async def test_a_second_interrupt_cancels():
    stop = StopSwitch()

    async def run():
        with stop.on_signals():
            os.kill(os.getpid(), signal.SIGINT)
            await stop.guard(forever())
            os.kill(os.getpid(), signal.SIGINT)
            await forever()

    before = signal.getsignal(signal.SIGINT)
    task = asyncio.ensure_future(run())
    with pytest.raises(asyncio.CancelledError):
        await task
    signal.signal(signal.SIGINT, before)


async def test_polling_turns_the_switch_on_when_asked():
    stop = StopSwitch()
    await stop.poll(lambda: True)
    assert stop.reason == "requested"
