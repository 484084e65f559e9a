"""A hard cap on boxes that counts those that are starting, for every task and thread of one process.

Other processes have caps of their own: what they run together is bounded by what their owner gives
each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator

from castform.sandbox.errors import UsageError


class Slots:
    """So many boxes at a time; who comes later waits, first come first served."""

    def __init__(self, limit: int | None) -> None:
        """`limit`: None for any number. UsageError below 1."""
        if limit is not None and limit < 1:
            raise UsageError(
                f"the most boxes at a time is {limit}, which starts none", hint="give at least 1"
            )
        self.limit = limit
        self._taken = 0
        self._lock = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> int:
        """Boxes that run or start."""
        return self._taken

    async def take(self) -> None:
        """Take a slot, waiting for one. Cancelled: none is taken."""
        with self._lock:
            if self.limit is None or (self._taken < self.limit and not self._waiting):
                self._taken += 1
                return
            loop = asyncio.get_running_loop()
            granted: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, granted))
        try:
            await granted
        except asyncio.CancelledError:
            with self._lock:
                waited = (loop, granted) in self._waiting
                if waited:
                    self._waiting.remove((loop, granted))
            if not waited:  # it was granted just now
                self.give_back()
            raise

    def give_back(self) -> None:
        """Give a slot back, once for each that was taken; the next who waits has it at once."""
        with self._lock:
            while self._waiting:
                loop, granted = self._waiting.popleft()
                with contextlib.suppress(RuntimeError):  # its loop is closed and nobody waits
                    loop.call_soon_threadsafe(_grant, granted)
                    return
            self._taken -= 1

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a slot for a block."""
        await self.take()
        try:
            yield
        finally:
            self.give_back()


def _grant(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)
