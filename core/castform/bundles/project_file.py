"""Import one file of a project under the name that it has there, on every machine the same."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from castform.errors import CastformError, UsageError
from castform.plugins.failure import ContainedError, call_contained


def import_project_file(path: Path) -> ModuleType:
    """Import a file as `module`, or `package.module` when it is part of a package.

    The project's folder is added at the end of the import path, so that it can add modules
    and never replace one. UsageError when another module has the name, CastformError when
    the file itself raises.
    """
    folder, name = _name_of(path)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()
    try:
        module = call_contained(lambda: _import(path, name))
    except ContainedError as contained:
        raise CastformError(
            f"{path} cannot be imported: {contained}", hint="-v shows the traceback"
        ) from contained.cause
    if Path(module.__file__ or "").resolve() != path:
        raise UsageError(
            f"{path} would be imported as {name!r}, which is {module.__file__}",
            hint="rename the package, or run in an environment that does not have the other one",
        )
    return module


def _name_of(path: Path) -> tuple[Path, str]:
    folder = path.parent
    names = [] if path.name == "__init__.py" else [path.stem]
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def _import(path: Path, name: str) -> ModuleType:
    if "." in name or path.name == "__init__.py":
        return importlib.import_module(name)
    own = re.sub(r"\W", "_", name)
    if own != name or not _is_free(own, path):
        own = f"bundled_{own}"
    if own in sys.modules:
        return sys.modules[own]
    spec = importlib.util.spec_from_file_location(own, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not Python source")
    module = importlib.util.module_from_spec(spec)
    sys.modules[own] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[own]
        raise
    return module


def _is_free(name: str, path: Path) -> bool:
    """Say whether a module name means this file or nothing."""
    if name in sys.modules:
        file = getattr(sys.modules[name], "__file__", None)
        return file is not None and Path(file).resolve() == path
    spec = importlib.util.find_spec(name)
    return spec is None or (spec.origin is not None and Path(spec.origin).resolve() == path)
