"""From an environment id to worker processes that run it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from castform.errors import UsageError
from castform.plugins.environments import LoadedEnvironment
from castform.workers.environment import WorkerEnvironment
from castform.workers.interpreter import Interpreter, this_interpreter
from castform.workers.limits import MAX_WORKERS, WorkerLimits
from castform.workers.values import encode_value

if TYPE_CHECKING:
    from castform.environment_section import EnvironmentSection


def start_worker_environment(
    id: str,
    args: Mapping[str, Any] | None = None,
    *,
    interpreter: Interpreter,
    workers: int,
    limits: WorkerLimits | None = None,
) -> LoadedEnvironment:
    """Load an environment in worker processes; the first is started now, the others with its dataset.

    Raises what `load_environment` raises in the worker, MissingError when the interpreter cannot be
    run, and WorkersFailedError when loading the environment ends the process.
    """
    return _start({"id": id, "args": encode_value(dict(args or {}))}, interpreter, workers, limits)


def start_section(section: EnvironmentSection, *, limits: WorkerLimits | None = None) -> LoadedEnvironment:
    """Load the environment of a run's config in its `workers`, with this interpreter.

    Raises what `start_worker_environment` raises.
    """
    from castform.environment_section import WORKER_KEYS

    data = section.model_dump(exclude_defaults=True, exclude=set(WORKER_KEYS))
    data["base_dir"] = str(section.base_dir)
    task = {"id": section.id, "section": encode_value(data)}
    return _start(task, this_interpreter(), section.workers, limits)


def _start(
    task: Mapping[str, Any], interpreter: Interpreter, workers: int, limits: WorkerLimits | None
) -> LoadedEnvironment:
    if isinstance(workers, bool) or not 1 <= workers <= MAX_WORKERS:
        raise UsageError(f"workers is {workers!r}, not a number from 1 to {MAX_WORKERS}")
    level = logging.getLogger().getEffectiveLevel()
    environment = WorkerEnvironment(
        {**task, "import_path": list(interpreter.import_path), "log_level": level},
        interpreter=interpreter,
        workers=workers,
        limits=limits or WorkerLimits(),
    )
    remote = environment.description
    return LoadedEnvironment(
        id=remote.id,
        environment=environment,
        pin=remote.pin,
        base_dir=remote.base_dir,
        spec=remote.spec,
        remote=remote,
    )
