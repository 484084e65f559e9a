"""One switch for everything that ends a run early: a signal, a stop request, the time limit."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal, TypeVar

Result = TypeVar("Result")
StopReason = Literal["signal", "requested", "time"]

POLL_SECONDS = 1.0
"""How often the store is asked for a stop request."""


class StopSwitch:
    """Belongs to one event loop. Once it is on it stays on."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.reason: StopReason | None = None
        self._event = asyncio.Event()
        self._clock = clock

    def turn_on(self, reason: StopReason) -> None:
        """Ask the run to end at the next good moment.

        Running out of time ends training alone, so it leaves later guarded work (the final
        evaluation) as it is, and a signal still counts after it.
        """
        if self.reason in (None, "time"):
            self.reason = reason
        if reason != "time":
            self._event.set()

    async def guard(
        self, work: Coroutine[Any, Any, Result], *, deadline: float | None = None
    ) -> Result | None:
        """Await `work`, or cancel it and return None when the switch goes on or `deadline` passes.

        `deadline` is in seconds of the clock; passing it turns the switch on with "time".
        """
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(self._event.wait())
        timeout = None if deadline is None else max(0.0, deadline - self._clock())
        try:
            done, _ = await asyncio.wait({task, waiter}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                self.turn_on("time")
            return task.result() if task in done else None
        finally:
            for item in (task, waiter):
                item.cancel()
            await asyncio.gather(task, waiter, return_exceptions=True)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM turn the switch on; a second one cancels the current task, a third ends the process.

        The handlers run between bytecodes, so a third one works even when environment code blocks
        the event loop. Outside the main thread, where Python delivers no signals, nothing is installed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        signals = (signal.SIGINT, signal.SIGTERM)
        count = 0

        def on_signal(number: int, frame: FrameType | None) -> None:
            nonlocal count
            count += 1
            if count > 1:
                for each in signals:
                    signal.signal(each, signal.SIG_DFL)
                if task is not None:
                    loop.call_soon_threadsafe(task.cancel)
            loop.call_soon_threadsafe(self.turn_on, "signal")

        before = {each: signal.signal(each, on_signal) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def poll(self, is_requested: Callable[[], bool]) -> None:
        """Turn the switch on when `is_requested` says so; runs until cancelled."""
        while True:
            if await asyncio.to_thread(is_requested):
                self.turn_on("requested")
                return
            await asyncio.sleep(POLL_SECONDS)
