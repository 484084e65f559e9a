"""Measure how long an event loop does not answer, and see what it is doing meanwhile."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

BEAT_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """A time in which the loop answered nothing."""

    seconds: float
    """Without the time that the thread was ready and got no processor, where the system tells."""
    cpu_seconds: float
    """What of it the loop's thread spent computing; the rest it slept or waited."""
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
        watcher.answer()  # a stall that lasts until here ends here
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
        self.native_id = threading.get_native_id()
        self.ended = threading.Event()
        self.answered = threading.Event()
        self.last = (time.perf_counter(), time.thread_time())
        """When the loop last answered, and its thread's processor time then."""
        self.watch = LoopWatch()

    def answer(self) -> None:
        """Give a sign of life; runs on the loop."""
        self.last = (time.perf_counter(), time.thread_time())
        self.answered.set()

    def run(self) -> None:
        while not self.ended.wait(BEAT_SECONDS):
            _, computed = self.last
            starved = self._starved_seconds()
            asked = time.perf_counter()
            self.answered.clear()
            try:
                self.loop.call_soon_threadsafe(self.answer)
            except RuntimeError:  # the loop was closed under the watch
                return
            place = None
            while not self.answered.wait(self.limit_seconds / 4) and not self.ended.is_set():
                # Code that keeps the interpreter to itself is first seen when it lets go.
                if time.perf_counter() - asked >= self.limit_seconds / 2:
                    place = self._look() or place
            seconds = self.last[0] - asked - (self._starved_seconds() - starved)
            if seconds >= self.limit_seconds and place is not None:
                self.watch.stalls.append(
                    Stall(seconds=seconds, cpu_seconds=self.last[1] - computed, place=place)
                )

    def _look(self) -> Place | None:
        frame = sys._current_frames().get(self.ident)
        return None if frame is None else self.find_place(frame)

    def _starved_seconds(self) -> float:
        """Return how long the loop's thread has waited for a processor so far; 0 where that is not told."""
        try:
            fields = Path(f"/proc/self/task/{self.native_id}/schedstat").read_text().split()
            return int(fields[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0
