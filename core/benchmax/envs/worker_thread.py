"""Call a blocking function without blocking the event loop, and without waiting for one that hangs."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Thread
from typing import Any


async def call_in_thread(function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
    """Return the function's result, computed in a thread of its own with the caller's context.

    A thread cannot be stopped: when the caller is cancelled it is left behind. It is a
    daemon outside of any pool, so it holds up neither other calls nor the exit.
    """
    answer: Future[object] = Future()
    answer.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answer.set_result(context.run(function, **arguments))
        except StopIteration as error:  # a future cannot carry it
            answer.set_exception(RuntimeError(f"StopIteration: {error}"))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - handed to the waiting caller, which raises it
            answer.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - nobody interrupts or cancels a thread: it is the function's own
            answer.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    Thread(target=work, name="benchmax-tool", daemon=True).start()
    return await asyncio.wrap_future(answer)
