"""Make a bundle of an environment class."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from benchmax.bundle.arguments import (
    EnvironmentClass,
    check_constructor_args,
    check_environment_class,
    runtime_version,
)
from benchmax.bundle.bundle import Bundle, BundleData
from benchmax.bundle.data_files import collect_data
from benchmax.bundle.errors import BundleSecretError, BundleSecretWarning, BundlingError
from benchmax.bundle.metadata import BundleMetadata, canonical_dependencies
from benchmax.bundle.pickle_graph import Node
from benchmax.bundle.secret_scan import find_secrets
from benchmax.bundle.sources import Sources, file_of, project_root

DEFAULT_MAX_BYTES = 256 << 20
"""Of the pickle and the data files together."""
_SHOWN = 8


def dump_bundle(
    env_class: EnvironmentClass,
    *,
    constructor_args: Mapping[str, Any] | None = None,
    pip_dependencies: Sequence[str] | None = None,
    local_modules: Sequence[ModuleType] | None = None,
    env_class_source: str | None = None,
    auto_local_modules: bool = True,
    data_files: Sequence[str | Path] | None = None,
    data_root: Path | None = None,
    secrets: Literal["refuse", "warn"] = "refuse",
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Bundle:
    """Return a bundle that loads where the project's source is not.

    The class, and every module of its project that it refers to, go along by value; a
    project is the nearest folder above with a pyproject.toml. The standard library,
    benchmax and installed packages are referred to by name: declare the packages in
    `pip_dependencies`. `local_modules` takes modules of other projects along too.
    `data_files` are files or folders of the project, relative to `data_root`, by default
    the project's folder.

    The same source, arguments, versions and imports give the same bytes in every process.

    BundlingError says what cannot go along, and why; BundleSecretError names the places of
    secrets, which `secrets="warn"` lets pass with a BundleSecretWarning.
    """
    cls = check_environment_class(env_class)
    if secrets not in ("refuse", "warn"):
        raise BundlingError(f"secrets must be 'refuse' or 'warn', not {secrets!r}")
    args = check_constructor_args(cls, constructor_args)
    metadata = _make_metadata(cls, pip_dependencies, env_class_source)
    modules = _check_modules(local_modules)
    sources = Sources(roots=_find_roots(cls, modules), dependencies=tuple(metadata.pip_dependencies))
    data = _collect(cls, sources, data_files or (), data_root, max_bytes)

    from benchmax.bundle.capture import Capture, capture  # cloudpickle is only needed from here on

    pickled = capture(
        Capture(
            env_class=cls,
            args=args,
            sources=sources,
            local_modules=modules,
            auto_local_modules=auto_local_modules,
            has_data=bool(data.files),
        )
    )
    bundle = Bundle(pickled=pickled.data, metadata=metadata, data=data)
    size = len(bundle.pickled) + data.size
    if size > max_bytes:
        raise BundlingError(
            f"the bundle has {size:,} bytes, {len(bundle.pickled):,} of them code and arguments; "
            f"at most {max_bytes:,} are allowed (max_bytes)"
        )
    _check_secrets(bundle, pickled.root, cls.__name__, refuse=secrets == "refuse")
    return bundle


def _make_metadata(
    cls: EnvironmentClass, dependencies: Sequence[str] | None, source: str | None
) -> BundleMetadata:
    try:
        return BundleMetadata(
            pip_dependencies=canonical_dependencies(() if dependencies is None else dependencies),
            python_version=f"{sys.version_info.major}.{sys.version_info.minor}",
            benchmax_version=runtime_version(),
            env_class_source=_source_of(cls) if source is None else source,
        )
    except (ValueError, TypeError) as error:
        raise BundlingError(str(error)) from error


def _source_of(cls: EnvironmentClass) -> str | None:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):  # made by exec, or in a console
        return None


def _check_modules(modules: object) -> tuple[ModuleType, ...]:
    if modules is None:
        return ()
    if isinstance(modules, str) or not isinstance(modules, Sequence):
        raise BundlingError(f"local_modules must be a list of modules, not {type(modules).__name__}")
    for module in modules:
        if not isinstance(module, ModuleType):
            raise BundlingError(f"local_modules must hold imported modules, not {module!r}")
        if sys.modules.get(module.__name__) is not module:
            raise BundlingError(f"{module.__name__} of local_modules is not an imported module")
    return tuple(modules)


def _find_roots(cls: EnvironmentClass, modules: Sequence[ModuleType]) -> tuple[Path, ...]:
    """Return the projects of the class and of the modules that were given, the class's first."""
    roots: dict[Path, None] = {}
    for module in (sys.modules.get(cls.__module__), *modules):
        file = None if module is None else file_of(module)
        root = None if file is None else project_root(file)
        if root is not None:
            roots[root] = None
    return tuple(roots)


def _collect(
    cls: EnvironmentClass,
    sources: Sources,
    data_files: Sequence[str | Path],
    data_root: Path | None,
    max_bytes: int,
) -> BundleData:
    if isinstance(data_files, str | bytes | Path):
        raise BundlingError("data_files must be a list of paths")
    if not data_files:
        return BundleData()
    from benchmax.bundle.code_pickler import relative_folder

    module = sys.modules.get(cls.__module__)
    if data_root is not None:
        root = Path(data_root)
    elif sources.roots:
        root = sources.roots[0]
    else:
        raise BundlingError(
            f"{cls.__name__} has no source file; say with data_root= where its data files are"
        )
    base = "" if module is None else relative_folder(module, sources)
    return collect_data(data_files, root=root, base=base, max_bytes=max_bytes)


def _check_secrets(bundle: Bundle, root: Node, name: str, *, refuse: bool) -> None:
    findings = find_secrets(bundle, root)
    if not findings:
        return
    more = f", and {len(findings) - _SHOWN} more places" if len(findings) > _SHOWN else ""
    places = "; ".join(map(str, findings[:_SHOWN])) + more
    if refuse:
        raise BundleSecretError(
            f"{name}: the bundle would carry secrets: {places}. Hold the name of a key instead, as "
            'InjectedAuth("name") does, or read it when the environment runs; secrets="warn" lets them pass'
        )
    warnings.warn(f"{name}: the bundle carries secrets: {places}", BundleSecretWarning, stacklevel=3)
