"""The process that certifies one environment for `castform.certify.alone`."""

from __future__ import annotations

import faulthandler
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from castform.certify.certification import Certification, CertifyOptions
from castform.errors import CastformError

LOADING = "the examples"
"""The first stage, once the environment is there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What to certify, and how long it may take."""

    id: str
    arguments: dict[str, Any]
    options: CertifyOptions
    base_dir: Path | None
    verbose: bool
    load_seconds: float
    """Until the environment is loaded."""
    limit_seconds: float
    """From then on."""
    standing: Path
    """Where to write what every thread stands at when the time is up."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What begins."""

    name: str


@dataclass(frozen=True, slots=True)
class Done:
    """The end, with everything that was said."""

    certification: Certification


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """The error that there is instead."""

    message: str
    hint: str | None
    exit_code: int | None
    """None: nobody expected it, so its traceback is the message."""
    traceback: str


def work(connection: Connection, job: Job) -> None:
    """Send stages, then Done or Failed. A session of its own lets the parent end all of it.

    When the time is up, a thread without Python code in it writes down where everything stands
    and ends the process: it needs neither the event loop nor the interpreter's lock.
    """
    os.setsid()
    os.dup2(2, 1)  # the command's stdout is its result
    with job.standing.open("w") as standing:
        faulthandler.dump_traceback_later(job.load_seconds, exit=True, file=standing)
        answer = _certify(
            job,
            lambda: faulthandler.dump_traceback_later(job.limit_seconds, exit=True, file=standing),
            lambda stage: connection.send(Stage(stage)),
        )
        faulthandler.cancel_dump_traceback_later()  # the parent does not wait long for an end
    try:
        connection.send(answer)
    except (BrokenPipeError, ConnectionResetError):
        return
    except Exception:
        if not isinstance(answer, Done):
            raise
        connection.send(Done(_without_transcripts(answer.certification)))  # transcripts need not pickle


def _certify(job: Job, on_loaded: Callable[[], None], on_stage: Callable[[str], None]) -> Done | Failed:
    from castform.certify.certify import certify_environment
    from castform.cli.logs import show_logs

    show_logs(verbose=job.verbose)

    def say(stage: str) -> None:
        if stage == LOADING:
            on_loaded()
        on_stage(stage)

    try:
        return Done(
            certify_environment(
                job.id, job.arguments, options=job.options, base_dir=job.base_dir, on_stage=say
            )
        )
    except CastformError as error:
        return Failed(
            message=str(error.args[0]),
            hint=error.hint or _explain(error),
            exit_code=error.exit_code,
            traceback=traceback.format_exc(),
        )
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
        hint = _explain(error)
        return Failed(
            message=f"{type(error).__name__}: {error}",
            hint=hint,
            exit_code=None if hint is None else CastformError.exit_code,
            traceback=traceback.format_exc(),
        )


def _explain(error: BaseException) -> str | None:
    from castform.plugins.hints import explain_error

    return explain_error(error)


def _without_transcripts(found: Certification) -> Certification:
    return replace(found, probes=found.probes and replace(found.probes, groups=()))
