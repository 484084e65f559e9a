"""Certify many environments in worker processes, each under its own deadline.

A worker is started once and used for one environment after the other, so that heavy imports
are paid once a worker. One that hangs or dies is killed and replaced, and costs the
environment that it was at and no other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from castform.certify.alone_worker import LOADING, Stage
from castform.certify.batch_worker import Failure, Task, work
from castform.certify.certification import Certification, CertifyOptions, Verdict
from castform.errors import UsageError
from castform.validation import Finding

GRACE_SECONDS = 15.0
"""Beyond `CertifyOptions.max_seconds`, which a certification keeps by itself unless something blocks it;
loading the plugin is within it too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchResult:
    """What came of one environment: a certification, or why there is none."""

    id: str
    certification: Certification | None = None
    failure: Finding | None = None
    """Set where there is no certification."""
    seconds: float = 0.0
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def findings(self) -> Sequence[Finding]:
        if self.certification is not None:
            return self.certification.findings
        return () if self.failure is None else (self.failure,)

    @property
    def passed(self) -> bool:
        """Whether there is a certification without a fault."""
        return self.certification is not None and self.certification.passed

    @property
    def verdict(self) -> Verdict:
        """What to make of it; unchecked where it is not the environment's doing that there is no certification."""
        if self.certification is not None:
            return self.certification.verdict
        return "failed" if any(finding.level == "fault" for finding in self.findings) else "unchecked"

    def describe(self) -> str:
        """Return the conclusion as one sentence."""
        if self.certification is not None:
            return self.certification.describe()
        word = "unchecked" if self.verdict == "unchecked" else "not certified"
        return f"{word}: {self.failure.message}" if self.failure else word

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values: those of the certification where there is one."""
        if self.certification is not None:
            return self.certification.as_dict()
        return {
            "passed": False,
            "verdict": self.verdict,
            "conclusion": self.describe(),
            "id": self.id,
            "seconds": self.seconds,
            "findings": [asdict(finding) for finding in self.findings],
        }


def certify_batch(
    ids: Sequence[str],
    *,
    arguments: Mapping[str, Any] | None = None,
    options: CertifyOptions | None = None,
    jobs: int | None = None,
    grace_seconds: float = GRACE_SECONDS,
    on_result: Callable[[BatchResult], None] = lambda result: None,
) -> list[BatchResult]:
    """Certify environments without a model; return one result an id, in the order of `ids`.

    `arguments` go to each environment. `jobs` worker processes (default: the cores this process may
    use) take `options.max_seconds` plus `grace_seconds` at most for one environment. Failures are
    results too: certify_timeout, certify_crashed, certify_failed for an id or plugin that cannot be
    loaded, something_missing (unchecked) where what it needs is not here, and examples_slow (unchecked) for one that took all the time to make its examples.
    `on_result` is told of each as it comes, in any order. UsageError for `jobs` below 1.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs is {jobs}, not a number of processes")
    options = options or CertifyOptions()
    limit = options.max_seconds + grace_seconds
    tasks = deque(
        Task(place=place, id=id, arguments=dict(arguments or {}), options=options)
        for place, id in enumerate(ids)
    )
    results: dict[int, BatchResult] = {}
    workers: list[_Worker] = []
    try:
        for _ in range(min(jobs or _count_cores(), len(ids))):
            workers.append(_Worker())  # one by one: where one cannot be started, those before it are ended
        while len(results) < len(ids):
            for worker in workers:
                if worker.task is None and tasks:
                    worker.give(tasks.popleft(), limit)
            for worker in _wait_for(workers):
                task = worker.task
                result = worker.take(limit)
                if task is not None and result is not None:
                    results[task.place] = result
                    on_result(result)
    finally:
        for worker in workers:
            worker.kill()
    return [results[place] for place in range(len(ids))]


class _Worker:
    """One process at a time, and what it is at."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.stage = ""
        """What the task was at last; empty while the environment is loaded."""
        self.deadline = 0.0
        self._began = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection: Connection
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs,))
        self._process.start()
        theirs.close()

    def give(self, task: Task, limit: float) -> None:
        """Send a task. A worker that has died since shows when its answer is waited for."""
        self.task, self.stage, self._began = task, "", time.monotonic()
        self.deadline = self._began + limit
        with suppress(OSError):
            self.connection.send(task)

    def take(self, limit: float) -> BatchResult | None:
        """Return the result of the task, None while there is none; replace the process where it was lost."""
        task = self.task
        if task is None:
            return None
        try:
            answer = self.connection.recv() if self.connection.poll() else None
            if isinstance(answer, Stage):
                self.stage = answer.name
                return None
        except (EOFError, OSError):
            code = self._replace()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            answer = Failure(
                code="certify_crashed",
                message=f"the process that certified it ended with {how} while {describe_stage(self.stage)}",
            )
        if answer is None:
            if time.monotonic() < self.deadline:
                return None
            self._replace()
            answer = describe_timeout(self.stage, limit)
        self.task = None
        seconds = time.monotonic() - self._began
        if isinstance(answer, Failure):
            finding = Finding(level=answer.level, code=answer.code, message=answer.message)
            return BatchResult(id=task.id, failure=finding, seconds=seconds, arguments=task.arguments)
        return BatchResult(id=task.id, certification=answer, seconds=seconds, arguments=task.arguments)

    def kill(self) -> int:
        """End the process and what it started; return its exit code, negative for a signal."""
        self.connection.close()
        self._process.join(0.2 if self.task is None else 0)  # an idle one ends by itself
        if self._process.is_alive():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid or 0, signal.SIGKILL)
            self._process.kill()
        self._process.join()
        code = self._process.exitcode
        self._process.close()
        return code or 0

    def _replace(self) -> int:
        code = self.kill()
        self._start()
        return code


def describe_stage(stage: str) -> str:
    """Return what was going on, for the end of a sentence."""
    return f"castform was at {stage}" if stage else "it was loaded"


def describe_timeout(stage: str, seconds: float, held: str = "") -> Failure:
    """Return why there is no certification after so long; examples that take all of it are no fault."""
    if stage == LOADING:
        message = f"it took longer than {seconds:.0f} s to make its examples{held}"
        return Failure(code="examples_slow", message=message, level="unchecked")
    message = f"not done after {seconds:.0f} s while {describe_stage(stage)}{held}, so its process was ended"
    return Failure(code="certify_timeout", message=message)


def _wait_for(workers: Sequence[_Worker]) -> list[_Worker]:
    """Return the workers that have something to say or whose time is up, once there is one."""
    busy = [worker for worker in workers if worker.task is not None]
    soonest = min(worker.deadline for worker in busy)
    ready = wait([worker.connection for worker in busy], max(0.0, soonest - time.monotonic()))
    now = time.monotonic()
    return [worker for worker in busy if worker.connection in ready or worker.deadline <= now]


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
