"""Run several requests at once, and none for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


# Any: what a coroutine is sent and yields is the event loop's business.
async def gather_or_cancel(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the coroutines at the same time and return their results, in order.

    The first one that fails cancels the others, and its own exception is raised once
    they have stopped: a judge's bill does not go on after the score is lost.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failures:
        first = failures.exceptions[0]
    else:
        return [task.result() for task in tasks]
    raise first
