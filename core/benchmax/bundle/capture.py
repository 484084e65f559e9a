"""Take a class with all project code that it refers to, and refuse what another machine could not load."""

from __future__ import annotations

import importlib
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from packaging.utils import canonicalize_name

from benchmax.bundle.arguments import EnvironmentClass
from benchmax.bundle.canonical_pickle import CanonicalPickle, canonical_pickle
from benchmax.bundle.code_pickler import CodePickler, by_value, remember_classes
from benchmax.bundle.delayed_imports import imported_names
from benchmax.bundle.errors import BundleWarning, BundlingError
from benchmax.bundle.references import named_objects, referenced_modules
from benchmax.bundle.sources import Sources, distributions_of

MAX_ROUNDS = 10
"""Each round takes in the modules that the round before turned out to refer to."""


@dataclass(frozen=True, kw_only=True)
class Capture:
    """What to take, and from where."""

    env_class: EnvironmentClass
    args: Mapping[str, Any]
    sources: Sources
    local_modules: Sequence[ModuleType] = ()
    auto_local_modules: bool = True
    has_data: bool = False

    @property
    def name(self) -> str:
        return self.env_class.__name__


def capture(wanted: Capture) -> CanonicalPickle:
    """Return the pickle of `(class, arguments)` with local code by value.

    BundlingError when something cannot be pickled, lies outside the project and the
    installation, or would only be imported when the environment runs.
    """
    modules = {module.__name__: module for module in wanted.local_modules}
    taken: list[str] = []
    for _ in range(MAX_ROUNDS):
        pickler, data = _pickle(wanted, modules.values())
        pickled = canonical_pickle(data)
        missing = _missing_modules(wanted, referenced_modules(pickled.root), modules)
        if not missing:
            break
        modules |= {name: _import(name, wanted) for name in missing}
        taken += missing
    else:
        raise BundlingError(f"{wanted.name}: its local modules refer to more and more others: {missing}")
    if taken:
        _warn(f"{wanted.name}: took local modules along by value: {', '.join(taken)}")
    _check_names_left(wanted, named_objects(pickled.root), modules)
    _check_delayed_imports(wanted, pickler)
    _warn_of_the_rest(wanted, pickler, referenced_modules(pickled.root))
    remember_classes(pickled.tracker_ids)
    return pickled


def _pickle(wanted: Capture, modules: Iterable[ModuleType]) -> tuple[CodePickler, bytes]:
    stream = io.BytesIO()
    pickler = CodePickler(stream, wanted.sources, has_data=wanted.has_data)
    try:
        with by_value(modules):
            pickler.dump((wanted.env_class, dict(wanted.args)))
    except Exception as error:  # whatever the author's objects raise when they are pickled
        raise BundlingError(f"{wanted.name} cannot be pickled: {type(error).__name__}: {error}") from error
    return pickler, stream.getvalue()


def _missing_modules(
    wanted: Capture, referenced: Sequence[str], modules: Mapping[str, ModuleType]
) -> list[str]:
    """Return the modules to take in the next round. BundlingError for those that may not be."""
    origins = {name: wanted.sources.origin_of(name) for name in referenced if not _is_below(name, modules)}
    external = [name for name, origin in origins.items() if origin == "external"]
    if external:
        raise BundlingError(
            f"{wanted.name}: missing local_modules=[{', '.join(external)}]: their source lies outside the "
            "project and no declared distribution brings them; pass them in local_modules, or declare "
            "their distribution in pip_dependencies"
        )
    local = [name for name, origin in origins.items() if origin == "local"]
    if local and not wanted.auto_local_modules:
        known = f" (already given: [{', '.join(modules)}])" if modules else ""
        raise BundlingError(f"{wanted.name}: missing local_modules=[{', '.join(local)}]{known}")
    return local


def _is_below(name: str, modules: Mapping[str, ModuleType]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:count]) in modules for count in range(1, len(parts) + 1))


def _import(name: str, wanted: Capture) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever the author's module raises
        raise BundlingError(
            f"{wanted.name}: missing local_modules=[{name}]: it cannot be imported here "
            f"({type(error).__name__}: {error})"
        ) from error


def _check_names_left(
    wanted: Capture, named: Iterable[tuple[str, str]], modules: Mapping[str, ModuleType]
) -> None:
    """Refuse what is still referred to by name in a module that is taken by value and will not be there."""
    left = sorted(f"{module}.{name}" for module, name in named if _is_below(module, modules))
    if left:
        raise BundlingError(
            f"{wanted.name}: cannot be taken along by value: {', '.join(left)}. Make it where it is used, "
            "or declare the distribution that it comes from and take its module out of local_modules"
        )


def _check_delayed_imports(wanted: Capture, pickler: CodePickler) -> None:
    late: dict[str, str] = {}
    for function in pickler.functions:
        for name in imported_names(function):
            if wanted.sources.origin_of(name) in ("local", "external"):
                late.setdefault(name, function.__qualname__)
    if late:
        places = ", ".join(f"{name} (in {function})" for name, function in late.items())
        raise BundlingError(
            f"{wanted.name}: delayed import of local source: {places}. It cannot be taken along, since it "
            "happens only when the environment runs. Move the import to the top of the module, or declare "
            "its distribution in pip_dependencies; local_modules does not help here"
        )


def _warn_of_the_rest(wanted: Capture, pickler: CodePickler, referenced: Sequence[str]) -> None:
    if pickler.foreign_paths:
        _warn(
            f"{wanted.name}: paths of this machine go along and may not exist elsewhere: "
            f"{', '.join(sorted(pickler.foreign_paths))}; data_files= takes files along"
        )
    undeclared = _undeclared(wanted, {name.partition(".")[0] for name in referenced})
    if undeclared:
        _warn(
            f"{wanted.name}: uses packages that it does not declare: {', '.join(undeclared)}; "
            "name their distributions in pip_dependencies"
        )


def _undeclared(wanted: Capture, tops: Iterable[str]) -> list[str]:
    """Return the installed packages among `tops` that come neither with benchmax nor by a declaration."""
    installed = [top for top in sorted(tops) if wanted.sources.origin_of(top) == "installed"]
    if not installed:
        return []
    from benchmax.bundle.runtime import runtime_distributions

    provided = runtime_distributions()
    return [
        top
        for top in installed
        if not {canonicalize_name(owner) for owner in distributions_of(top)} & provided
        and not wanted.sources.is_declared(top, Path())
    ]


def _warn(message: str) -> None:
    warnings.warn(message, BundleWarning, stacklevel=2)
