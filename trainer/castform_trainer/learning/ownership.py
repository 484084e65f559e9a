"""See a run to its end: its status in the store, its end told to the listeners, torch set for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import torch

from castform.plugins.events import RunEnded
from castform.verdict import Verdict
from castform_trainer.learning.reporter import Reporter
from castform_trainer.learning.stop import StopSwitch


class RunResult(Protocol):
    """What every kind of run says at its end."""

    @property
    def status(self) -> str:
        """finished or stopped."""
        ...

    @property
    def verdict(self) -> Verdict | None: ...


Result = TypeVar("Result", bound=RunResult)


async def own_run(
    work: Coroutine[Any, Any, Result], *, reporter: Reporter, stop: StopSwitch, steps: Callable[[], int]
) -> Result:
    """Await the work of a run that this process owns, and store and tell how it ended.

    `steps` gives the steps taken so far. A stop request in the store turns `stop` on.
    """
    store, run_id = reporter.store, reporter.run.run_id
    polling = asyncio.create_task(stop.poll(lambda: store.stop_requested(run_id)))
    try:
        result = await work
    except BaseException as error:
        status = "failed" if isinstance(error, Exception) else "stopped"
        reporter.tell(RunEnded(status=status, step=steps(), error=str(error) or type(error).__name__))
        raise
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
    store.set_status(run_id, "stopped" if result.status == "stopped" else "finished")
    verdict = result.verdict.word if result.verdict else None
    reporter.tell(RunEnded(status=result.status, step=steps(), verdict=verdict))
    return result


@contextmanager
def torch_settings(*, threads: int | None, deterministic: bool) -> Iterator[None]:
    """Set torch's threads and determinism for the block, and put them back after it."""
    before, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    if threads:
        torch.set_num_threads(threads)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(strict)
