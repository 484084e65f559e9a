"""Certify one environment without a model, in a process that can be ended.

Environment code may hold the event loop for ever, kill its process or crash the interpreter.
Here that is an answer like any other, in time: a finding that names the line it stood at.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from castform.certify.alone_worker import Done, Failed, Job, Stage, work
from castform.certify.batch import BatchResult, describe_stage, describe_timeout
from castform.certify.certification import CertifyOptions
from castform.errors import CastformError, MissingError, UsageError
from castform.stuck import find_place
from castform.validation import Finding

GRACE_SECONDS = 10.0
"""Beyond `CertifyOptions.max_seconds`, which a certification keeps by itself unless something blocks it."""
LOAD_SECONDS = 60.0
"""Until the environment is loaded: libraries are imported, which counts for nothing."""
CLOSE_SECONDS = 2.0
"""From when the process writes down where it stands until it is ended."""


class AuthorError(Exception):
    """What the other process raised; the text is its traceback."""


def certify_alone(
    id: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    options: CertifyOptions,
    base_dir: Path | None = None,
    grace_seconds: float = GRACE_SECONDS,
    verbose: bool = False,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> BatchResult:
    """Load an environment and certify it in a process of its own; the result keeps its transcripts.

    Once the environment is loaded it takes `options.max_seconds` plus `grace_seconds` at most. Failures
    of that process are results: certify_timeout, examples_slow and certify_crashed. CastformError as
    `certify_environment` raises it, with its hint and exit code. What environment code prints goes
    to stderr.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="castform-certify-") as folder:
        job = Job(
            id=id,
            arguments=dict(arguments or {}),
            options=options,
            base_dir=base_dir,
            verbose=verbose,
            limit_seconds=options.max_seconds + grace_seconds,
            load_seconds=options.max_seconds + grace_seconds + LOAD_SECONDS,
            standing=Path(folder) / "standing",
        )
        with _Process(job) as process:
            answer = process.listen(on_stage)
        standing = _read(job.standing)
    seconds = time.monotonic() - began
    if isinstance(answer, Failed):
        raise _rebuild(answer)
    if isinstance(answer, Done):
        return BatchResult(
            id=id, certification=answer.certification, seconds=seconds, arguments=job.arguments
        )
    failure = _describe_end(process, standing, seconds)
    return BatchResult(id=id, failure=failure, seconds=seconds, arguments=job.arguments)


class _Process:
    """The process for as long as the block lasts; nothing of it is left behind."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.code: int | None = None
        """Exit code, negative for a signal; None: it had to be killed."""
        self.stage = ""
        """What was going on last."""
        self._limit_seconds = job.limit_seconds
        self._connection: Connection
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, job))
        self._process.start()
        theirs.close()
        self._deadline = time.monotonic() + job.load_seconds + CLOSE_SECONDS

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._process.join(CLOSE_SECONDS)
            self.code = self._process.exitcode
        with suppress(ProcessLookupError, PermissionError):  # what it started is ended with it
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join()
        self._connection.close()

    def listen(self, on_stage: Callable[[str], None]) -> Done | Failed | None:
        """Return the answer; None where the process ended or was late without one."""
        while True:
            try:
                if not self._connection.poll(max(self._deadline - time.monotonic(), 0.0)):
                    return None
                message: Stage | Done | Failed = self._connection.recv()
            except (EOFError, OSError):
                return None
            if not isinstance(message, Stage):
                return message
            if not self.stage:
                self._deadline = time.monotonic() + self._limit_seconds + CLOSE_SECONDS
            self.stage = message.name
            on_stage(message.name)


def _describe_end(process: _Process, standing: str, seconds: float) -> Finding:
    where = f"while {describe_stage(process.stage)}"
    if process.code is not None and not standing:
        how = (
            f"signal {signal.Signals(-process.code).name}"
            if process.code < 0
            else f"exit code {process.code}"
        )
        message = f"the environment ended the process that certified it {where}: {how}"
        return Finding(level="fault", code="certify_crashed", message=message)
    place = find_place(standing)
    held = "" if place is None else f": it stood at {place}, and nothing else moved"
    failure = describe_timeout(process.stage, seconds, held)
    return Finding(level=failure.level, code=failure.code, message=failure.message)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _rebuild(failed: Failed) -> Exception:
    if failed.exit_code is None:
        return AuthorError(failed.traceback)
    kind = {kind.exit_code: kind for kind in (CastformError, UsageError, MissingError)}[failed.exit_code]
    error = kind(failed.message, hint=failed.hint)
    error.__cause__ = AuthorError(failed.traceback)
    return error
