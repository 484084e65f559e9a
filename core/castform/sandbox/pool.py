"""Boxes that are started before they are asked for. A box that was handed out never comes back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from castform.errors import CastformError, UsageError
from castform.sandbox.contract import BoxRequest, Sandbox, SandboxProvider
from castform.sandbox.errors import SandboxError
from castform.sandbox.teardown import finish

CHECK_AFTER_SECONDS = 10.0
"""A box that waited longer is asked for a sign of life before it is handed out."""

CHECK_SECONDS = 10.0
"""For that sign; a box that gives none is thrown away."""

logger = logging.getLogger(__name__)


class WarmPool:
    """Keeps `size` started boxes of one request ready. Who takes one owns it and closes it.

    Boxes that wait count against the provider's cap like any other.
    """

    def __init__(self, provider: SandboxProvider, request: BoxRequest, *, size: int) -> None:
        if size < 1:
            raise UsageError(f"a warm pool of {size} boxes keeps none ready", hint="give it at least 1")
        self._provider = provider
        self._request = request
        self._size = size
        self._ready: deque[tuple[Sandbox, float]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._discarding: set[asyncio.Task[None]] = set()
        self._waiting: deque[asyncio.Future[Sandbox]] = deque()
        self._closed = False

    @property
    def ready(self) -> int:
        """Boxes that wait to be taken."""
        return len(self._ready)

    def warm(self) -> None:
        """Start what is missing, without waiting for it."""
        if self._closed:
            raise UsageError("the warm pool is closed")
        for _ in range(self._size - len(self._ready) - len(self._starting)):
            task = asyncio.create_task(self._start_one())
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def wait_warm(self) -> None:
        """Wait until everything that is being started has been; then `ready` says how many are."""
        while self._starting:
            await asyncio.wait(set(self._starting))

    async def take(self) -> Sandbox:
        """Return a started box that nobody had before, and start another in its place.

        One that has died while it waited is thrown away. With none ready a box is started here, and the
        first that gets ready is taken, be it this one or another: under a cap of the provider's the warm
        ones may be what is in its way. Raises what the provider's `start` raises.
        """
        if self._closed:
            raise UsageError("the warm pool is closed")
        while self._ready:
            box, since = self._ready.popleft()
            self.warm()
            try:
                if time.monotonic() - since < CHECK_AFTER_SECONDS or await _is_there(box):
                    return box
            except BaseException:
                self._discard(box)
                raise
            self._discard(box)
        box = await self._take_first()
        if not self._closed:
            self.warm()
        return box

    async def aclose(self) -> None:
        """Close every box that was not taken, those that are starting too. Twice is fine."""
        self._closed = True
        await finish(self._close())

    async def __aenter__(self) -> Self:
        self.warm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _start_one(self) -> None:
        try:
            box = await self._provider.start(self._request)
        except CastformError as error:  # `take` meets it again and raises it to who needs the box
            logger.warning("a warm sandbox could not be started: %s", error)
            return
        await self._keep(box)

    async def _take_first(self) -> Sandbox:
        """Start a box and wait for it or for a warm one, whichever comes first."""
        handed: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
        self._waiting.append(handed)
        own = asyncio.create_task(self._provider.start(self._request))
        try:
            await asyncio.wait({handed, own}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if handed.done():
                self._in_background(self._keep(handed.result()))
            self._in_background(self._end_start(own))
            raise
        finally:
            if handed in self._waiting:
                self._waiting.remove(handed)
        if not handed.done():
            return own.result()
        self._in_background(self._end_start(own))
        return handed.result()

    async def _end_start(self, own: asyncio.Task[Sandbox]) -> None:
        """End a start that nobody waits for any more; a box that it has made already is kept."""
        own.cancel()
        with contextlib.suppress(asyncio.CancelledError, CastformError):
            await self._keep(await own)

    async def _keep(self, box: Sandbox) -> None:
        """Give a started box to who waits for one, else have it ready."""
        if self._waiting:
            self._waiting.popleft().set_result(box)
        elif self._closed:
            await finish(box.close())
        else:
            self._ready.append((box, time.monotonic()))

    def _discard(self, box: Sandbox) -> None:
        self._in_background(box.close())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:  # Any: what a coroutine yields
        task = asyncio.create_task(work)
        self._discarding.add(task)
        task.add_done_callback(self._discarding.discard)

    async def _close(self) -> None:
        for task in self._starting:
            task.cancel()  # the provider leaves nothing of a start that is cancelled
        waiting = [*self._starting, *self._discarding]
        closing = [box.close() for box, _ in self._ready]
        self._ready.clear()
        ends = await asyncio.gather(*waiting, *closing, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                logger.warning("a warm sandbox could not be closed: %s", end)


async def _is_there(box: Sandbox) -> bool:
    with contextlib.suppress(SandboxError):
        await box.exec(["true"], timeout_seconds=CHECK_SECONDS)
        return True
    return False
