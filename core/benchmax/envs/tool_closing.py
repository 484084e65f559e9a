"""See a clean-up through to its end, whatever happens to the task that wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

CLOSE_SECONDS = 30.0
"""Most time that a clean-up gets; one that hangs is cancelled and left."""
LEAVE_SECONDS = 1.0


async def see_through(work: Coroutine[Any, Any, None], *, seconds: float = CLOSE_SECONDS) -> None:
    """Await the work in a task of its own. Cancelling the caller does not reach it; it is raised afterwards.

    TimeoutError: it was not done after `seconds`, and was cancelled. What it raises is raised here.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and loop.time() < deadline + LEAVE_SECONDS:
        if loop.time() >= deadline:
            task.cancel()
        until = deadline if loop.time() < deadline else deadline + LEAVE_SECONDS
        try:
            await asyncio.wait({task}, timeout=max(0.0, until - loop.time()))
        except asyncio.CancelledError as error:
            cancelled = error
    late = not task.done() or task.cancelled()
    failure = None if late else task.exception()
    if cancelled is not None:
        raise cancelled
    if late:
        raise TimeoutError(f"not done after {seconds:g} seconds")
    if failure is not None:
        raise failure
