"""The process that certifies one environment after the other for `castform.certify.batch`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from castform.certify.alone_worker import Stage
from castform.certify.certification import Certification, CertifyOptions
from castform.errors import CastformError, MissingError
from castform.validation import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One environment to certify."""

    place: int
    id: str
    arguments: dict[str, Any]
    options: CertifyOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why there is no certification."""

    code: str
    message: str
    level: Level = "fault"


def work(connection: Connection) -> None:
    """Answer each task with a Certification (without transcripts) or a Failure, until the other end closes.

    Before that comes a Stage whenever one begins.

    A process group of its own lets the parent end it with whatever it has started. What
    environments print goes nowhere: stdout belongs to the command's result.
    """
    os.setsid()
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        sys.stdout = sys.stderr = nowhere
        while True:
            try:
                task = connection.recv()
            except EOFError:
                return
            connection.send(_certify(task, lambda stage: connection.send(Stage(stage))))


def _certify(task: Task, on_stage: Callable[[str], None]) -> Certification | Failure:
    from castform.certify.certify import certify_environment

    try:
        found = certify_environment(task.id, task.arguments, options=task.options, on_stage=on_stage)
    except MissingError as error:  # says nothing of the environment
        message = f"{error.args[0]} ({error.hint})" if error.hint else str(error.args[0])
        return Failure(code="something_missing", message=message, level="unchecked")
    except CastformError as error:
        return Failure(code="certify_failed", message=str(error.args[0]))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code; the next one is tried all the same
        return Failure(code="certify_crashed", message=f"{type(error).__name__}: {error}")
    probes = found.probes and replace(found.probes, groups=())
    return replace(found, probes=probes, result=None)
