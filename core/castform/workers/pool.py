"""Several worker processes for one environment: kept alive, watched and fed by one thread of the host.

The thread owns the processes: it starts them (the kernel ends them with the thread that did), so it
lives as long as they do. Everybody else posts what they want to its inbox.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from castform import __version__
from castform.errors import CastformError, MissingError
from castform.workers.calls import CANCELLED, Call, WorkerLostError, WorkersFailedError
from castform.workers.exceptions import rebuild_exception
from castform.workers.interpreter import Interpreter
from castform.workers.limits import WorkerLimits
from castform.workers.process import WorkerProcess
from castform.workers.protocol import (
    BEAT_SECONDS,
    PROTOCOL_VERSION,
    Frame,
    FrameTooLargeError,
    ProtocolError,
)
from castform.workers.reactor import Reactor
from castform.workers.records import log_records
from castform.workers.slot_count import SlotCount
from castform.workers.watch import BlockingNotice, find_fault, is_responsive

CLOSE_SECONDS = 6.0

logger = logging.getLogger(__name__)


class WorkerPool:
    """`size` processes with the environment that `task` names."""

    def __init__(
        self, *, task: Mapping[str, Any], interpreter: Interpreter, limits: WorkerLimits, size: int
    ) -> None:
        self._task = {"t": "load", "protocol": PROTOCOL_VERSION, **task}
        self._interpreter = interpreter
        self._limits = limits
        self._size = size
        self._workers: list[WorkerProcess] = []
        self._datasets: list[Mapping[str, Any]] = []
        self._numbers = itertools.count()
        self._names = itertools.count()
        self._slots: SlotCount | None = None
        self._deaths = 0
        self._broken: CastformError | None = None
        self._notice = BlockingNotice(str(task.get("id") or "the environment"))
        self._loaded: Future[Frame] = Future()
        self._closed: Future[None] = Future()
        self._closed.set_running_or_notify_cancel()  # whoever waits may be cancelled; closing is not
        self._close_by: float | None = None
        self._reactor = Reactor(
            name="castform-workers",
            tick_seconds=BEAT_SECONDS,
            on_tick=self._look_after,
            is_done=lambda: self._close_by is not None and not self._workers,
            on_error=self._note_defect,
            at_end=self._end,
        )

    def start(self) -> Frame:
        """Start one worker, wait until it has loaded the environment, and return what it says of it.

        Raises what `load_environment` raised there, under the same name; MissingError when the
        interpreter cannot be run; WorkersFailedError when the process died.
        """
        self._reactor.post(self._spawn)
        self._reactor.start()
        return self._loaded.result()

    def submit(self, call: Call) -> None:
        """Give a call to a worker. Its `answer` is settled in any case."""
        self._reactor.post(lambda: self._assign(call))

    def cancel(self, call: Call) -> None:
        """Have the worker end a call. The answer still comes, when it has."""
        self._reactor.post(lambda: self._send_cancel(call))

    def close(self) -> Future[None]:
        """Close every environment and end the processes; those that take long are killed."""
        self._reactor.post(self._begin_close)
        return self._closed

    def kill(self) -> None:
        """End all processes at once, from any thread."""
        self._reactor.post(self._begin_close)
        for worker in list(self._workers):
            worker.kill()

    def list_pids(self) -> list[int]:
        """Return the ids of the processes there are now."""
        return [worker.pid for worker in list(self._workers)]

    # From here on everything runs in the reactor's thread.

    def _note_defect(self, error: BaseException) -> None:
        logger.error("the thread that looks after workers failed", exc_info=error)
        self._break(WorkersFailedError(f"the host's part of the workers failed: {error!r}"))

    def _end(self) -> None:
        for worker in self._workers:
            worker.kill()
        self._closed.set_result(None)

    # Processes.

    def _spawn(self) -> None:
        name = f"worker {next(self._names)}"
        try:
            worker = WorkerProcess(name, self._interpreter, self._limits)
        except OSError as error:
            gone = isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError))
            self._break(
                MissingError(
                    f"cannot run {self._interpreter.python} ({error.strerror or error})",
                    hint="the Python of the worker processes is gone; install the plugin again"
                    if gone
                    else "the system refuses another process; fewer workers need less of it",
                )
            )
            return
        self._workers.append(worker)
        self._reactor.watch(worker.answers, lambda: self._receive(worker))
        self._reactor.watch(worker.printed, lambda: self._read_output(worker))
        self._send(worker, self._task)

    def _read_output(self, worker: WorkerProcess) -> None:
        if not worker.read_output(time.monotonic()):
            self._reactor.forget(worker.printed)

    def _receive(self, worker: WorkerProcess) -> None:
        try:
            for frame in worker.read():
                self._take(worker, frame)
        except EOFError:
            self._lose(worker)
        except (ProtocolError, KeyError, TypeError, ValueError) as error:
            worker.why = worker.why or f"it broke the protocol ({error!r})"
            self._lose(worker)

    def _look_after(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if worker.has_ended():
                self._receive_rest(worker)
                self._lose(worker)
                continue
            if self._close_by is not None and now >= self._close_by:
                worker.why = "it did not close in time"
            worker.why = worker.why or find_fault(worker, self._limits, now)
            if worker.why is not None:
                self._lose(worker)
                continue
            self._notice.look(worker, now)
            self._take_back(worker, now)

    def _receive_rest(self, worker: WorkerProcess) -> None:
        """Take what a process wrote before it ended: results in it count."""
        with contextlib.suppress(EOFError, ProtocolError, KeyError, TypeError, ValueError):
            for frame in worker.read():
                self._take(worker, frame)

    def _lose(self, worker: WorkerProcess) -> None:
        """End a worker whatever its state, settle what it had, and put another in its place."""
        if worker not in self._workers:
            return
        worker.kill()
        self._workers.remove(worker)
        worker.read_output(time.monotonic())
        for descriptor in (worker.answers, worker.printed, worker.requests):
            self._reactor.forget(descriptor)
        worker.bury()
        if self._slots is not None:
            self._slots.forget(worker)
        why = worker.describe_end()
        calls = [call for call in worker.calls.values() if not call.message.get("replay")]
        if self._close_by is not None:
            for call in calls:
                _fail(call, WorkerLostError("the environment was closed"))
            return
        logger.warning("%s is gone: %s", worker.name, why)
        self._deaths += 1
        self._check_deaths(why)
        if self._broken is None:
            self._spawn()
        for call in calls:
            if worker.loaded:
                _fail(call, WorkerLostError(why))
            else:
                self._assign(call)  # it was never begun

    def _check_deaths(self, why: str) -> None:
        if not self._loaded.done():
            self._break(WorkersFailedError(f"the environment cannot be loaded: {why}"))
        elif self._deaths >= self._limits.most_deaths(self._size):
            self._break(
                WorkersFailedError(
                    f"{self._deaths} worker processes died one after the other, and no group was finished between "
                    f"them; the last: {why}",
                    hint="`castform validate` with environment.workers = 0 runs the environment in this process",
                )
            )

    def _break(self, error: CastformError) -> None:
        """Give up: settle everything with the error and end all processes."""
        self._broken = error
        if not self._loaded.done():
            self._loaded.set_exception(error)
        for worker in self._workers:
            calls, worker.calls = worker.calls, {}
            for call in calls.values():
                _fail(call, error)
            worker.kill()
        if self._close_by is None:
            self._close_by = time.monotonic()

    def _begin_close(self) -> None:
        if self._close_by is not None:
            return
        self._close_by = time.monotonic() + CLOSE_SECONDS
        for worker in self._workers:
            if worker.loaded:
                self._send(worker, {"t": "close"})
            else:
                worker.kill()

    # Calls.

    def _assign(self, call: Call) -> None:
        if self._broken is not None or self._close_by is not None:
            _fail(call, self._broken or WorkerLostError("the environment was closed"))
            return
        if call.cancelled:  # given back, or never begun by a worker that is gone
            call.answer.set_result(CANCELLED)
            return
        if call.kind in ("dataset", "run"):
            while len(self._workers) < self._size and self._broken is None:
                self._spawn()
        if self._broken is not None:
            _fail(call, self._broken)
            return
        worker = self._pick()
        for message in self._datasets:
            if _dataset_key(message) not in worker.replayed:
                self._hand_over(worker, Call(message={**message, "replay": True}, weight=0))
        self._hand_over(worker, call)

    def _pick(self) -> WorkerProcess:
        """Return the least loaded worker of those that answer, or of all."""
        now = time.monotonic()
        return min(self._workers, key=lambda w: (not is_responsive(w, now), w.load))

    def _take_back(self, worker: WorkerProcess, now: float) -> None:
        """Have a worker that is held up give back the groups that it has not begun, for others to run."""
        if is_responsive(worker, now):
            worker.asked_back = False
        elif not worker.asked_back and any(is_responsive(other, now) for other in self._workers):
            worker.asked_back = True
            self._send(worker, {"t": "take_back"})

    def _hand_over(self, worker: WorkerProcess, call: Call) -> None:
        call.number = next(self._numbers)
        worker.calls[call.number] = call
        worker.asked_back = False
        if call.kind == "dataset":
            worker.replayed.add(_dataset_key(call.message))
        try:
            self._send(worker, {**call.message, "call": call.number})
        except (FrameTooLargeError, TypeError, ValueError) as error:
            del worker.calls[call.number]
            _fail(call, error)

    def _send_cancel(self, call: Call) -> None:
        call.cancelled = True
        for worker in self._workers:
            if call.number in worker.calls:
                self._send(worker, {"t": "cancel", "call": call.number})

    def _send(self, worker: WorkerProcess, message: Frame) -> None:
        worker.send(message)
        if worker.has_outgoing:
            self._reactor.watch(worker.requests, lambda: self._write(worker), writing=True)

    def _write(self, worker: WorkerProcess) -> None:
        worker.write()
        if not worker.has_outgoing:
            self._reactor.forget(worker.requests)

    # What workers say.

    def _take(self, worker: WorkerProcess, frame: Frame) -> None:
        kind = frame["t"]
        if kind == "beat":
            worker.note_beat(frame, time.monotonic())
        elif kind in ("events", "examples"):
            worker.note_alive(time.monotonic())
            call = worker.calls.get(frame["call"])
            if call is not None:
                call.on_events(frame[kind])
        elif kind == "answer":
            worker.note_alive(time.monotonic())
            self._settle(worker, frame)
        elif kind == "logs":
            log_records(frame["records"])
        elif kind == "slot_wanted" and self._slots is not None:
            self._slots.want(worker, frame["ticket"])
        elif kind == "slot_done" and self._slots is not None:
            self._slots.give_back(worker, frame["ticket"])
        elif kind == "hello":
            self._check_hello(worker, frame)
        elif kind == "loaded":
            self._note_loaded(worker, frame)
        elif kind == "failed":
            self._note_failed(worker, frame)
        else:
            raise ProtocolError(f"an unknown message {kind!r}")

    def _check_hello(self, worker: WorkerProcess, frame: Frame) -> None:
        if frame["protocol"] != PROTOCOL_VERSION:
            self._break(
                WorkersFailedError(
                    f"the worker process speaks protocol {frame['protocol']} (castform {frame['castform']}), "
                    f"this host {PROTOCOL_VERSION} (castform {__version__})",
                    hint="install the same version of castform on both sides",
                )
            )

    def _note_loaded(self, worker: WorkerProcess, frame: Frame) -> None:
        worker.note_loaded(time.monotonic())
        limit = frame["facts"]["max_concurrent_rollouts"]
        if limit is not None and self._slots is None:
            self._slots = SlotCount(limit, lambda w, ticket: self._send(w, {"t": "slot", "ticket": ticket}))
        if not self._loaded.done():
            self._loaded.set_result(frame)

    def _note_failed(self, worker: WorkerProcess, frame: Frame) -> None:
        error = rebuild_exception(frame["error"])
        worker.why = f"it could not load the environment: {type(error).__name__}: {error}"
        if not self._loaded.done():
            self._loaded.set_exception(error)
            self._begin_close()

    def _settle(self, worker: WorkerProcess, frame: Frame) -> None:
        call = worker.calls.pop(frame["call"], None)
        if call is None:
            return
        if frame.get("untouched"):
            self._assign(call)
            return
        if call.kind == "run":
            self._deaths = 0
        if "error" in frame:
            try:
                error = rebuild_exception(frame["error"])
            except Exception as unreadable:  # noqa: BLE001 - whatever came instead: somebody waits for the answer
                error = ProtocolError(f"an error that cannot be read: {unreadable!r}")
            _fail(call, error)
            return
        message = call.message
        known = {_dataset_key(dataset) for dataset in self._datasets}
        if call.kind == "dataset" and _dataset_key(message) not in known:
            self._datasets.append(message)
        call.answer.set_result(CANCELLED if frame.get("cancelled") else frame["value"])


def _dataset_key(message: Mapping[str, Any]) -> tuple[str, str, int | None]:
    return message["split"], message["base_dir"], message["max_examples"]


def _fail(call: Call, error: BaseException) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
