"""Cleaning up that is done even while it is being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
