"""Ends that come once: of a box, in the event loop that it lives in, and of a provider whose boxes still start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

from castform.sandbox.errors import SandboxStartError
from castform.sandbox.teardown import finish

_LOOK_SECONDS = 0.05
"""Between looks whether another event loop still runs."""
_LOOKS = 40
"""Before what went wrong in a loop is not put down to its end."""


class Closing:
    """What closes a box: done once, whoever asks for it and in whatever event loop."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:  # Any: as in `finish`
        """Make it in the event loop of the box. `work` is begun anew only where a loop ended in the middle of it."""
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether the box is being closed, or is closed."""
        return self._task is not None

    async def finish(self) -> None:
        """Do it, or wait until it is done, cancelled or not. It is done here where the box's own loop runs no more."""
        await finish(self._finish())

    async def _finish(self) -> None:
        here = asyncio.get_running_loop()
        while self._loop is not here and self._loop.is_running():
            if await self._join_there():
                return
        await self._join()

    async def _join_there(self) -> bool:
        """Wait for it in the box's own loop; False where that one ends before it is done."""
        work = self._join()
        try:
            waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        except RuntimeError:  # it was closed just now
            work.close()
            return False
        while not waiting.done() and self._loop.is_running():
            await asyncio.wait({waiting}, timeout=_LOOK_SECONDS)
        if not waiting.done() or waiting.cancelled():
            waiting.cancel()
            await asyncio.sleep(_LOOK_SECONDS)
            return False
        fault = waiting.exception()
        if isinstance(fault, RuntimeError) and await self._is_ending():
            self._task = None  # a loop that ends has no threads any more
            return False
        waiting.result()
        return True

    async def _is_ending(self) -> bool:
        for _ in range(_LOOKS):
            if not self._loop.is_running():
                return True
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    async def _join(self) -> None:
        loop = asyncio.get_running_loop()
        task = self._task
        if task is None or task.cancelled() or not (task.done() or task.get_loop() is loop):
            task = self._task = loop.create_task(self._work())
        await asyncio.shield(task)


class Starts:
    """Starts of boxes that are under way, so that the end of their provider ends them too."""

    def __init__(self) -> None:
        self.closed = False
        self._under_way: dict[Future[None], tuple[asyncio.AbstractEventLoop, asyncio.Timeout]] = {}

    def check_open(self) -> None:
        """Raise SandboxStartError when the provider is closed."""
        if self.closed:
            raise SandboxStartError("no box was started: the provider is closed")

    @contextlib.contextmanager
    def noted(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Let `end` end a start, by its time limit, and wait for it."""
        ended: Future[None] = Future()
        self._under_way[ended] = (asyncio.get_running_loop(), limit)
        try:
            yield
        finally:
            del self._under_way[ended]
            ended.set_result(None)

    async def end(self, *, seconds: float) -> None:
        """Let no more boxes start; end starts that are under way and wait so long for them, in any event loop."""
        self.closed = True
        under_way = list(self._under_way.items())
        for _, (loop, limit) in under_way:
            with contextlib.suppress(RuntimeError):  # its loop is closed, and the start with it
                loop.call_soon_threadsafe(_expire, limit)
        waiting = [asyncio.wrap_future(ended) for ended, (loop, _) in under_way if loop.is_running()]
        if waiting:
            await asyncio.wait(waiting, timeout=seconds)


def _expire(limit: asyncio.Timeout) -> None:
    with contextlib.suppress(RuntimeError):  # it has ended meanwhile
        limit.reschedule(0)
