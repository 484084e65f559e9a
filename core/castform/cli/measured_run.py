"""A run of `eval` or `validate`: stored, shown while it goes, and stopped on request."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from castform.call_log import append_calls
from castform.cli.group_progress import GroupProgress
from castform.errors import RunFailedError
from castform.runs import RunStore, hold_run_folder, run_folder

if TYPE_CHECKING:
    from castform.config import RunConfig
    from castform.plugins import LoadedEnvironment
    from castform.rollouts import RolloutGroup

T = TypeVar("T")
CALLS_FILE = "calls/gateway.jsonl"
STOP_POLL_SECONDS = 1.0


class StopRequestedError(RunFailedError):
    """Somebody asked for this run to stop."""


class MeasuredRun:
    """One run of a kind. `open` starts it; the callbacks go to `evaluate` or `validate`."""

    def __init__(
        self, *, kind: str, config: RunConfig, loaded: LoadedEnvironment, logs_calls: bool = False
    ) -> None:
        """`logs_calls` keeps the calls of an endpoint that writes no log itself."""
        self.kind = kind
        self._logs_calls = logs_calls
        self.run_id = secrets.token_hex(5)
        self._config = config
        self._loaded = loaded
        self._looked = time.monotonic()
        self._created = False

    @asynccontextmanager
    async def open(
        self, open_model: Callable[[Path], AbstractAsyncContextManager[T]], *, total: int
    ) -> AsyncIterator[tuple[MeasuredRun, T]]:
        """Open store, folder and model, then own the run for the block.

        A model that cannot be opened leaves nothing behind: the run is stored after it.
        """
        with RunStore.open() as self._store:
            folder = run_folder(self._store.home, self.run_id)
            try:
                with hold_run_folder(folder), stop_on_sigterm():
                    (folder / CALLS_FILE).parent.mkdir()
                    async with open_model(folder / CALLS_FILE) as model:
                        self._create()
                        with self._store.running(self.run_id), GroupProgress(total) as self._progress:
                            yield self, model
            finally:
                if not self._created:
                    shutil.rmtree(folder, ignore_errors=True)

    def _create(self) -> None:
        config = self._config
        self._store.create_run(
            run_id=self.run_id,
            kind=self.kind,
            name=config.run.name or f"{self._loaded.id} with {config.model.id}",
            config=config.model_dump(mode="json"),
            environment=self._loaded.pin,
        )
        self._created = True

    def on_group(self, group: RolloutGroup) -> None:
        """Show that a group ended. Raises StopRequestedError when the run was asked to stop."""
        self._progress.add(group)
        if time.monotonic() - self._looked >= STOP_POLL_SECONDS:
            self._looked = time.monotonic()
            if self._store.stop_requested(self.run_id):
                self._store.set_status(self.run_id, "stopped")
                raise StopRequestedError(f"run {self.run_id} was stopped on request")

    def record(self, groups: Sequence[RolloutGroup]) -> None:
        """Store groups with their rollouts."""
        if self._logs_calls:
            append_calls(
                run_folder(self._store.home, self.run_id) / CALLS_FILE,
                (call for group in groups for rollout in group.rollouts for call in rollout.calls),
            )
        self._store.add_rollouts(self.run_id, groups, mode=self.kind, step=0, calls_path=CALLS_FILE)

    def store_result(
        self, label: str, result: Mapping[str, Any], scalars: Mapping[str, float | None]
    ) -> None:
        """Store what came out."""
        self._store.add_eval(self.run_id, label, step=0, result=result)
        self._store.add_scalars(self.run_id, 0, scalars, mode=self.kind)


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """SIGTERM cancels the current task, as Ctrl-C does; a second one ends the process.

    Outside the main thread, where Python delivers no signals, nothing is installed.
    """
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def base_folder(config: RunConfig, loaded: LoadedEnvironment) -> Path:
    """Return where relative dataset paths start: as configured, else beside the environment's code."""
    configured = config.environment.base_dir
    return loaded.base_dir if configured == Path() else configured


def settle(runner: Callable[[Coroutine[Any, Any, T]], T], work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; its being cancelled is an interrupt for the command line."""
    try:
        return runner(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
