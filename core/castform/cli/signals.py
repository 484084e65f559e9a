"""Signals that end a command, for commands that clean up behind themselves."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
ENDING = (signal.SIGTERM, signal.SIGHUP)
REPEAT_SECONDS = 2.0
"""A signal so soon after the first is the same wish: `timeout` sends its own twice, a closing terminal two kinds."""


class Interrupt:
    """What the first signal does."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._task: asyncio.Task[Any] | None = None

    async def hold(self, work: Awaitable[T]) -> T:
        """Await the work of a command. A signal, Ctrl-C too, cancels it, and its cleanup runs to the end."""
        self._task = asyncio.current_task()
        try:
            with _take([signal.SIGINT], self.on_signal):
                return await work
        finally:
            self._task = None

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._first is not None:
            if time.monotonic() - self._first > REPEAT_SECONDS:
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            return
        self._first = time.monotonic()
        if self._task is None:
            raise KeyboardInterrupt
        self._task.get_loop().call_soon_threadsafe(self._task.cancel)


@contextmanager
def interrupt_on_sigterm() -> Iterator[Interrupt]:
    """SIGTERM and a terminal that closes are an interrupt, as Ctrl-C is; a later second one ends the process.

    What is ignored stays ignored (nohup). Outside the main thread, where Python delivers no
    signals, nothing is installed. Of work that is not held, KeyboardInterrupt is raised wherever it is.
    """
    interrupt = Interrupt()
    ours = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    with _take(ours, interrupt.on_signal):
        yield interrupt


@contextmanager
def _take(
    numbers: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Handle signals that are not ignored until the block ends; outside the main thread none."""
    before = {number: signal.getsignal(number) for number in numbers}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    ours = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in ours.items():
            signal.signal(number, old)
