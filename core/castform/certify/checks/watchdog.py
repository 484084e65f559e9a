"""Measure how long an event loop does not answer, and see what it is doing meanwhile."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

BEAT_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """A time in which the loop answered nothing."""

    seconds: float
    cpu_seconds: float
    """What of it the loop's thread spent computing; the rest it slept, waited, or got no processor."""
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A line of the environment that was on the stack."""

    function: str
    file: str
    line: int


@dataclass(slots=True)
class LoopWatch:
    """What a watch has seen. Stalls shorter than the limit, or outside the watched code, are not kept."""

    stalls: list[Stall] = field(default_factory=list)


@contextmanager
def watch_loop(limit_seconds: float, find_place: Callable[[FrameType], Place | None]) -> Iterator[LoopWatch]:
    """Watch the running loop until the block ends.

    A thread asks the loop for a sign of life every 10 ms. When none comes within half the limit
    it looks at the loop thread's stack, again and again; `find_place` gives the line of a stack to
    blame, or None for a stack that is nobody's business.
    """
    watcher = _Watcher(asyncio.get_running_loop(), limit_seconds, find_place)
    thread = threading.Thread(target=watcher.run, name="loop-watch", daemon=True)
    thread.start()
    try:
        yield watcher.watch
    finally:
        watcher.ended.set()
        thread.join()


class _Watcher:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit_seconds: float,
        find_place: Callable[[FrameType], Place | None],
    ) -> None:
        self.loop = loop
        self.limit_seconds = limit_seconds
        self.find_place = find_place
        self.ident = threading.get_ident()
        self.ended = threading.Event()
        self.answered = threading.Event()
        self.answer = (time.perf_counter(), time.thread_time())
        """When the loop last answered, and its thread's processor time then."""
        self.watch = LoopWatch()

    def run(self) -> None:
        while not self.ended.wait(BEAT_SECONDS):
            before = self.answer
            asked = time.perf_counter()
            self.answered.clear()
            try:
                self.loop.call_soon_threadsafe(self._answer)
            except RuntimeError:  # the loop was closed under the watch
                return
            place = None
            while not self.answered.wait(self.limit_seconds / 4) and not self.ended.is_set():
                # Code that keeps the interpreter to itself is first seen when it lets go.
                if time.perf_counter() - asked >= self.limit_seconds / 2:
                    place = self._look() or place
            late = self.answer[0] - asked
            if late >= self.limit_seconds and place is not None:
                computed = self.answer[1] - before[1]
                self.watch.stalls.append(Stall(seconds=late, cpu_seconds=computed, place=place))

    def _answer(self) -> None:
        self.answer = (time.perf_counter(), time.thread_time())
        self.answered.set()

    def _look(self) -> Place | None:
        frame = sys._current_frames().get(self.ident)
        return None if frame is None else self.find_place(frame)
