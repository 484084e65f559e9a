"""Cleaning up that is done even while it is being cancelled, or behind whoever was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from castform.errors import CastformError

T = TypeVar("T")

logger = logging.getLogger(__name__)


async def finish(work: Coroutine[Any, Any, T]) -> T:  # Any: a coroutine's send and yield types
    """Run `work` to its end, however often the caller is cancelled meanwhile; then be cancelled.

    Bound what `work` waits for: nothing ends it early. An exception of `work` is raised when the
    caller was not cancelled, and is chained to the CancelledError when it was.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
        except BaseException:  # noqa: BLE001 - it is the task's own and is taken from the task below
            break
    if cancelled is None:
        return task.result()
    raise cancelled from task.exception()


class Background:
    """Work that goes on when whoever waits for it is cancelled.

    Starting and ending a box takes seconds on a busy machine, and a rollout that is cancelled is not
    to wait for that. Whoever has one calls `wait` in the end.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()  # Any: whatever each of them returns

    async def run(
        self,
        work: Coroutine[Any, Any, T],  # Any: a coroutine's send and yield types, here and below
        *,
        undo: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Return what `work` returns. Cancelled: `work` goes on, and what it returns is given to `undo`."""
        task = self._keep(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if undo is not None and not task.cancelled():
                self.begin(_undo(task, undo))
            raise

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start `work`, which nobody waits for; when it fails a warning says so."""
        self._keep(_warn(work))

    async def wait(self) -> None:
        """Wait until nothing is left of it."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _undo(task: asyncio.Task[T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> None:
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is None:
        await undo(task.result())


async def _warn(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except CastformError as error:
        logger.warning("a sandbox was left behind: %s", error)
