"""An environment in one Python file: nothing to package, nothing to install."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from castform.errors import CastformError, UsageError
from castform.home import expand_home
from castform.plugins.failure import ContainedError, call_contained
from castform.plugins.names import quote_names, suggest_names

if TYPE_CHECKING:
    from benchmax.envs import Environment


def is_path(id: str) -> bool:
    """Say whether an id is a path and not a plugin's name."""
    file = split_class(id)[0]
    return file.endswith((".py", ".toml")) or id.startswith((".", "~", "/")) or os.sep * 2 in id or "\\" in id


def split_class(id: str) -> tuple[str, str | None]:
    """Split `my_env.py:MyEnv` into the file and the class."""
    file, sep, name = id.rpartition(".py:")
    return (f"{file}.py", name or None) if sep else (id, None)


def load_environment_class(
    id: str, *, import_file: Callable[[Path], ModuleType] | None = None
) -> tuple[type[Environment[Any, Any]], Path]:
    """Return the one Environment class of a file, or the one named after `file.py:`.

    `import_file` imports it in another way than under a name of its own.
    Raises UsageError when there is no such file or class, or more than one and none named;
    CastformError when the file itself raises.
    """
    text, wanted = split_class(id)
    path = expand_home(text)
    if path.suffix != ".py":
        raise UsageError(
            f"{text} is not a Python file",
            hint="an environment id is a plugin's name or a path to a .py file with an Environment class in it",
        )
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{text} {what}", hint="give the path of one Python file with an Environment class")
    path = path.resolve()
    module = (import_file or _import_file)(path)
    classes = find_environment_classes(module)
    if wanted is not None:
        if wanted not in classes:
            close = suggest_names(wanted, classes)
            raise UsageError(
                f"{text} has no environment class {wanted!r}",
                hint=f"did you mean {close[0]!r}?" if close else f"it has {quote_names(classes) or 'none'}",
            )
        return classes[wanted], path
    if not classes:
        raise UsageError(f"{text} has no environment class in it", hint=_explain_none(module))
    if len(classes) > 1:
        raise UsageError(
            f"{text} has {len(classes)} environment classes: {quote_names(classes)}",
            hint=f"name one, as in '{text}:{next(iter(classes))}', or start the others' names with '_'",
        )
    return next(iter(classes.values())), path


def find_environment_classes(module: ModuleType) -> dict[str, type[Environment[Any, Any]]]:
    """Return the usable environment classes that a module defines itself, in the order of the file."""
    return {name: value for name, value in _own_environments(module).items() if not inspect.isabstract(value)}


def _own_environments(module: ModuleType) -> dict[str, type[Environment[Any, Any]]]:
    from benchmax.envs import Environment

    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Environment)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }


def _explain_none(module: ModuleType) -> str:
    for name, value in _own_environments(module).items():
        methods = ", ".join(sorted(getattr(value, "__abstractmethods__", ())))
        return f"class {name} still lacks {methods}"
    return "derive a class from benchmax.envs.BaseEnv there"


def _import_file(path: Path) -> ModuleType:
    """Import a file under a name of its own; files beside it can be imported by it."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"castform_file_{path.stem.replace('-', '_')}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # at the end: it can add modules, never replace one
    sys.modules[name] = module  # pickling and dataclasses look it up
    try:
        call_contained(lambda: loader.exec_module(module))
    except ContainedError as contained:
        del sys.modules[name]
        raise CastformError(
            f"{path} cannot be imported: {contained}", hint=_locate(contained.cause, path)
        ) from contained.cause
    return module


def _locate(cause: BaseException, path: Path) -> str:
    if isinstance(cause, SyntaxError) and cause.lineno:
        return f"line {cause.lineno} of {cause.filename or path.name}"
    line = None
    trace = cause.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"line {line} of {path.name}; -v shows the traceback" if line else "-v shows the traceback"
