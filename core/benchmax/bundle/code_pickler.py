"""Pickle classes and functions by value, with nothing of this machine in the bytes."""

from __future__ import annotations

import functools
import io
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from benchmax.bundle.places import bundled_file_name, bundled_path
from benchmax.bundle.sources import Sources, file_of

_lock = threading.RLock()
"""cloudpickle's list of modules to pickle by value belongs to the whole process."""
_IMPORT_MACHINERY = ("__builtins__", "__spec__", "__loader__", "__cached__", "__path__")


class CodePickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no type information
    """cloudpickle's pickler, which takes no file names along and keeps note of the functions it took."""

    def __init__(self, file: io.BytesIO, sources: Sources, *, has_data: bool) -> None:
        super().__init__(file, protocol=5)
        self._sources = sources
        self._has_data = has_data
        self.functions: list[FunctionType] = []
        """Functions that were taken by value."""
        self.foreign_paths: set[str] = set()
        """Paths of this machine that were taken as they are."""

    def reducer_override(self, obj: Any) -> Any:  # any object, and any of pickle's forms of a reduction
        """Return how an object is taken apart."""
        if isinstance(obj, ModuleType):
            return self._reduce_module(obj)
        if isinstance(obj, PurePath):
            return self._reduce_path(obj)
        if isinstance(obj, functools._lru_cache_wrapper):
            return _reduce_cached(obj)
        reduced = super().reducer_override(obj)
        if not isinstance(reduced, tuple) or len(reduced) != 6:
            return reduced
        if isinstance(obj, FunctionType):
            self.functions.append(obj)
            self._clean_function(reduced)
        else:
            _clean_class(obj, reduced)
        return reduced

    def _reduce_module(self, module: ModuleType) -> Any:
        reduced = self.dispatch_table[ModuleType](module)
        if len(reduced[1]) != 2:  # by reference
            return reduced
        create, (name, content) = reduced
        # as a state and not as an argument: two modules may refer to each other
        return create, (name, {}), self._clean_globals(content)

    def _reduce_path(self, path: PurePath) -> Any:
        relative = self._sources.relative_path(Path(path)) if path.is_absolute() else None
        if relative is not None and self._has_data and isinstance(path, Path):
            return bundled_path, (relative,)
        if path.is_absolute():
            self.foreign_paths.add(str(path))
        return NotImplemented

    def _clean_function(self, reduced: tuple[Any, ...]) -> None:
        _, (_, module_globals, *_), (_, slots), *_ = reduced
        for name in ("__file__", "__path__"):
            module_globals.pop(name, None)
        slots["_cloudpickle_submodules"].sort(key=lambda module: str(module.__name__))
        slots["__globals__"] = self._clean_globals(slots["__globals__"])

    def _clean_globals(self, content: dict[str, Any]) -> dict[str, Any]:
        clean = {name: value for name, value in content.items() if name not in _IMPORT_MACHINERY}
        if "__file__" in clean:
            clean["__file__"] = self._place_of(clean["__file__"])
        return clean

    def _place_of(self, file: Any) -> Any:
        relative = self._sources.relative_path(Path(file).resolve()) if isinstance(file, str) else None
        if relative is None:
            return file
        return _FileName(relative) if self._has_data else relative


def _reduce_cached(function: Any) -> Any:  # a function under functools.cache or lru_cache
    """Take a cached function by value, with an empty cache, where a plain one would be."""
    module = str(function.__module__)
    owner: Any = sys.modules.get(module)
    for part in function.__qualname__.split("."):
        owner = getattr(owner, part, None)
    if owner is function and module != "__main__" and not _is_by_value(module):
        return NotImplemented
    wrapped, settings = function.__wrapped__, function.cache_parameters()
    arguments = (wrapped, settings["maxsize"], settings["typed"], functools._CacheInfo)
    names = ("__module__", "__name__", "__qualname__", "__doc__")
    state = {name: getattr(function, name, None) for name in names}
    return functools._lru_cache_wrapper, arguments, {**state, "__wrapped__": wrapped}


def _is_by_value(module: str) -> bool:
    registered = cloudpickle.list_registry_pickle_by_value()
    parts = module.split(".")
    return any(".".join(parts[:count]) in registered for count in range(1, len(parts) + 1))


class _FileName:
    """Stands for a module's file name, which is known when the bundle is loaded."""

    def __init__(self, relative: str) -> None:
        self._relative = relative

    def __reduce__(self) -> Any:
        return bundled_file_name, (self._relative,)


def _clean_class(cls: type, reduced: tuple[Any, ...]) -> None:
    """Bring what Python keeps in sets about a class into an order."""
    content = reduced[2][0]
    if "__dataclass_fields__" in content and str(content.get("__doc__")).startswith(f"{cls.__name__}("):
        del content["__doc__"]  # made of the reprs of the defaults, sets and addresses among them
    if registered := content.get("_abc_impl"):
        registered.sort(key=lambda cls: (cls.__module__, cls.__qualname__))
    if isinstance(names := content.get("__static_attributes__"), tuple):
        content["__static_attributes__"] = tuple(sorted(names))


@contextmanager
def by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Inside, pickle what these modules define by value. One thread at a time."""
    with _lock:
        added = [m for m in modules if m.__name__ not in cloudpickle.list_registry_pickle_by_value()]
        for module in added:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in added:
                cloudpickle.unregister_pickle_by_value(module)


def remember_classes(tracker_ids: dict[str, str]) -> None:
    """Let this process find its own classes under the ids that a bundle gives them.

    So a bundle that is loaded where it was made gives the very class it was made from.
    """
    from cloudpickle import cloudpickle as implementation

    for old, new in tracker_ids.items():
        known = implementation._DYNAMIC_CLASS_TRACKER_BY_ID.get(old)
        if known is not None:
            implementation._lookup_class_or_track(new, known)


def relative_folder(module: ModuleType, sources: Sources) -> str:
    """Return the folder of a module's file inside the project; empty for the project's own folder."""
    file = file_of(module)
    relative = None if file is None else sources.relative_path(file)
    folder = "." if relative is None else PurePath(relative).parent.as_posix()
    return "" if folder == "." else folder
