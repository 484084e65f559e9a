"""The environment under examination, and how to make another one like it."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmax.envs import Environment
from castform.errors import UsageError

Examinable = str | os.PathLike[str] | Environment[Any, Any] | Callable[..., Environment[Any, Any]]
"""An id, a path to a file, an environment, or a class or function that makes one."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One environment, and the way to make more of it."""

    name: str
    """For the reader."""
    environment: Environment[Any, Any]
    make: Callable[[], Environment[Any, Any]]
    """Makes another one; raises what the author's code raises, or what pickling it does."""
    base_dir: Path
    id: str | None = None
    """As `load_environment` takes it; None for an object."""
    arguments: Mapping[str, Any]


def open_subject(
    given: Examinable, arguments: Mapping[str, Any] | None = None, base_dir: Path | None = None
) -> Subject:
    """Return what there is to examine. Raises what `load_environment` raises, and UsageError for anything else."""
    arguments = dict(arguments or {})
    if isinstance(given, str | os.PathLike):
        return _open_id(os.fspath(given), arguments, base_dir)
    place = base_dir or Path(getattr(sys.modules.get(type(given).__module__), "__file__", None) or ".").parent
    if isinstance(given, Environment):
        if arguments:
            raise UsageError(
                "args are for an id or a class; this environment is made already",
                hint="give the class instead, or make it with these arguments",
            )
        return Subject(
            name=type(given).__name__,
            environment=given,
            make=lambda: copy_by_pickle(given),
            base_dir=place,
            arguments={},
        )
    if not callable(given):
        raise UsageError(
            f"{given!r} is no environment",
            hint="give an id, a path to a .py file, an Environment, or a class or function that makes one",
        )
    make: Callable[[], Environment[Any, Any]] = lambda: given(**arguments)  # noqa: E731 - one line
    made: object = make()
    if not isinstance(made, Environment):
        raise UsageError(f"{given!r} made a {type(made).__name__}, not a benchmax.envs.Environment")
    module = sys.modules.get(given.__module__)
    place = base_dir or Path(getattr(module, "__file__", None) or ".").resolve().parent
    name = getattr(given, "__name__", type(made).__name__)
    return Subject(name=name, environment=made, make=make, base_dir=place, arguments=arguments)


def _open_id(id: str, arguments: dict[str, Any], base_dir: Path | None) -> Subject:
    from castform.plugins.environment_files import is_path
    from castform.plugins.environments import load_environment

    place = os.path.abspath(id) if is_path(id) else id  # noqa: PTH100 - keeps a `:Class` at the end
    loaded = load_environment(place, arguments)
    return Subject(
        name=loaded.id,
        environment=loaded.environment,
        make=lambda: load_environment(place, arguments).environment,
        base_dir=base_dir or loaded.base_dir,
        id=place,
        arguments=arguments,
    )


def dump_by_value(thing: Any) -> bytes:  # Any: an environment, an example, a payload
    """Pickle with cloudpickle; classes of modules that another process cannot import go along by value."""
    import cloudpickle

    with _by_value(sys.modules.get(type(thing).__module__)):
        data: bytes = cloudpickle.dumps(thing)
        return data


def copy_by_pickle(environment: Environment[Any, Any]) -> Environment[Any, Any]:
    """Return what comes back from pickling an environment."""
    import cloudpickle

    copied: Environment[Any, Any] = cloudpickle.loads(dump_by_value(environment))
    return copied


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    import cloudpickle

    if module is None or module.__name__ == "__main__" or _can_be_imported(module.__name__):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _can_be_imported(name: str) -> bool:
    """Say whether a fresh process with the same path finds a module; a test file usually is not found."""
    path: list[str] | None = None
    parts = name.split(".")
    for place in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:place]), path)
        if spec is None:
            return False
        path = list(spec.submodule_search_locations or ())
    return True
