"""From an environment id to an environment that can run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.errors import CastformError
from castform.home import expand_home
from castform.plugins.environment_files import is_path, load_environment_class
from castform.plugins.failure import ContainedError, PluginFailure, call_contained
from castform.plugins.loader import load_registry
from castform.plugins.pins import (
    EnvironmentPin,
    PinDetails,
    combine_hashes,
    hash_environment_file,
    hash_files,
    mark_files,
)
from castform.plugins.plugin import Plugin
from castform.plugins.references import bind_args, call_factory, load_factory
from castform.plugins.registry import Registry
from castform.plugins.specs import EnvironmentSpec

if TYPE_CHECKING:
    from benchmax.envs import Environment, Example
    from castform.compose.parts import UsedPart
    from castform.workers.describing import RemoteEnvironment
    from castform.workers.limits import WorkerLimits


@dataclass(frozen=True, kw_only=True)
class LoadedEnvironment:
    """An environment, ready to make datasets and run rollouts."""

    id: str
    """`plugin/environment`, or the path as it was given."""
    environment: Environment[Any, Any]
    pin: EnvironmentPin
    base_dir: Path
    """Folder of the code that made it; relative dataset paths start there."""
    spec: EnvironmentSpec | None = None
    """None for an environment in a file."""
    plugin: Plugin | None = None
    remote: RemoteEnvironment | None = None
    """What worker processes say of it; None for an environment in this process."""
    summary: str = ""
    """One line, of a composed environment."""
    parts: tuple[UsedPart, ...] = ()
    """What a composed environment is made of."""

    def with_examples(self, **splits: Sequence[Example[Any]]) -> LoadedEnvironment:
        """Return it with the fingerprints of these splits' examples in its pin."""
        return replace(self, pin=self.pin.with_examples(**splits))


def load_environment(
    id: str,
    args: Mapping[str, Any] | None = None,
    *,
    registry: Registry[Plugin] | None = None,
    workers: int = 0,
    limits: WorkerLimits | None = None,
) -> LoadedEnvironment:
    """Load the environment that an id or a path names, with the arguments of its factory.

    With `workers`, it lives in so many processes of its own, under `limits`. One whose plugin is
    installed isolated always does, in one process unless more are asked for.
    Raises UsageError for an id, path or class that does not exist, ConfigError for wrong
    arguments, MissingError for an extra that is not installed, PluginFailure for a broken plugin.
    """
    if workers and (is_path(id) or id.endswith(".toml")):
        return _start_workers(id, args, workers=workers, limits=limits)
    if id.endswith(".toml"):
        from castform.compose.load import load_composed

        return load_composed(expand_home(id), args, registry=registry)
    if is_path(id):
        return _load_file(id, dict(args or {}))
    plugins = load_registry() if registry is None else registry
    plugin = plugins.load(id)
    if plugin.interpreter is not None or workers:
        member = plugins.find(id).member
        return _start_workers(id, args, workers=workers or 1, limits=limits, plugin=plugin, member=member)
    spec = plugin.find_spec(EnvironmentSpec, plugins.find(id).member)
    environment, used = call_factory(plugin, spec, dict(args or {}))
    _check_environment(plugin, spec, environment)
    place = _source_file(load_factory(plugin, spec))
    full_id = f"{plugin.name}/{spec.name}"
    files = hash_files(_package_root(spec.factory, place))
    pin = EnvironmentPin(
        id=full_id,
        distribution=plugin.entry.distribution,
        version=plugin.entry.version,
        content_sha256=combine_hashes(files),
        args=used,
        details=PinDetails(files=mark_files(files)),
    )
    return LoadedEnvironment(
        id=full_id, environment=environment, pin=pin, base_dir=place.parent, spec=spec, plugin=plugin
    )


def _start_workers(
    id: str,
    args: Mapping[str, Any] | None,
    *,
    workers: int,
    limits: WorkerLimits | None,
    plugin: Plugin | None = None,
    member: str | None = None,
) -> LoadedEnvironment:
    from castform.workers.interpreter import this_interpreter
    from castform.workers.start import start_worker_environment

    if plugin is None:
        return start_worker_environment(
            id, args, interpreter=this_interpreter(), workers=workers, limits=limits
        )
    spec = plugin.find_spec(EnvironmentSpec, member)
    loaded = start_worker_environment(
        f"{plugin.name}/{spec.name}",
        args,
        interpreter=plugin.interpreter or this_interpreter(),
        workers=workers,
        limits=limits,
    )
    return replace(loaded, spec=spec, plugin=plugin)


def _load_file(id: str, args: dict[str, Any]) -> LoadedEnvironment:
    cls, path = load_environment_class(id)
    bind_args(cls, args, id)
    try:
        environment = call_contained(lambda: cls(**args))
    except ContainedError as contained:
        if isinstance(contained.cause, CastformError):
            raise contained.cause from contained.cause.__cause__
        raise CastformError(
            f"{cls.__name__} of {path.name} cannot be made: {contained}", hint="-v shows the traceback"
        ) from contained.cause
    files = hash_environment_file(path)
    pin = EnvironmentPin(
        id=f"{path.name}:{cls.__name__}",
        distribution="",
        version="",
        content_sha256=combine_hashes(files),
        args=args,
        details=PinDetails(files=mark_files(files)),
    )
    return LoadedEnvironment(id=id, environment=environment, pin=pin, base_dir=path.parent)


def _check_environment(plugin: Plugin, spec: EnvironmentSpec, made: object) -> None:
    from benchmax.envs import Environment

    if not isinstance(made, Environment):
        raise PluginFailure(
            plugin.name,
            plugin.entry.distribution,
            "factory",
            f"{spec.factory} made {type(made).__name__}, not a benchmax.envs.Environment",
        )


def _source_file(factory: Callable[..., Any]) -> Path:
    """Return the file that a factory is written in."""
    try:
        return Path(inspect.getfile(inspect.unwrap(factory))).resolve()
    except TypeError:  # an instance with __call__
        return Path(inspect.getfile(type(factory))).resolve()


def _package_root(reference: str, place: Path) -> Path:
    """Return the folder of the factory's top-level package; its own file where it has none."""
    top = sys.modules.get(reference.partition(":")[0].partition(".")[0])
    init = getattr(top, "__file__", None)
    if init is None:
        return place.parent if place.name == "__init__.py" else place
    return Path(init).resolve().parent if Path(init).name == "__init__.py" else Path(init).resolve()
