"""From the id of a part to what its plugin makes of it, with every fault noted and none raised."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from castform.compose.faults import Faults
from castform.compose.settings import Part
from castform.errors import CastformError
from castform.plugins.catalog import CORE
from castform.plugins.failure import PluginFailure
from castform.plugins.names import normalize_name
from castform.plugins.pins import combine_hashes, hash_files
from castform.plugins.plugin import REGISTRATION_HOOKS, Plugin
from castform.plugins.references import call_factory, load_config_model, load_factory, validate_args
from castform.plugins.registry import Registry
from castform.plugins.specs import RewardSpec, Spec

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True, kw_only=True)
class UsedPart:
    """A part that was found: what a pin and a listing say of it."""

    kind: str
    id: str
    """`plugin/name`; of data of the user's own, its file."""
    summary: str
    distribution: str = ""
    """Empty for data of the user's own."""
    version: str = ""
    content_sha256: str = ""
    """Over the files of the package that the part's code is in."""
    module: str = ""
    """Where its code is."""
    weight: float | None = None
    """Of a reward or a rubric."""
    name: str = ""
    """Of its component, or of its tool where it has another one."""


@dataclass(kw_only=True)
class PartFinder:
    """Looks parts up and makes them."""

    registry: Registry[Plugin]
    faults: Faults
    hashes: dict[Path, str] = field(default_factory=dict)
    """Content of the packages that were hashed already."""

    def find(self, kind: type[S], part: Part, at: str) -> tuple[Plugin, S] | None:
        """Return the plugin and the description of a part; None, with a fault noted, when there is none."""
        first = part.id.partition("/")[0].partition("@")[0]
        try:
            found = self.registry.find(part.id)
            if found.owner is not None and found.member is None:  # of `a/b`, b is the part, whatever a may be
                self.registry.find(first)
            plugin, member = self.registry.load(part.id), found.member
        except CastformError as error:
            self.faults.add_error(at, error)
            return None
        try:
            return plugin, plugin.find_spec(kind, member)
        except CastformError as error:
            other = None if isinstance(error, PluginFailure) else _find_other(plugin, kind, member)
            if other is None:
                self.faults.add_error(at, error)
            else:
                self.faults.add(
                    at,
                    f"{plugin.name}/{normalize_name(member or '')} is {_article(other)} {other}, not "
                    f"{_article(kind.kind)} {kind.kind}",
                )
            return None

    def make(self, kind: type[Spec], part: Part, at: str) -> tuple[Any, UsedPart] | None:
        """Return what the factory of a part makes of its args; None with the faults noted."""
        found = self.find(kind, part, at)
        if found is None:
            return None
        plugin, spec = found
        try:
            made, _ = call_factory(plugin, spec, part.args)
            return made, self._describe(plugin, spec)
        except CastformError as error:
            refused = error.cause if isinstance(error, PluginFailure) and plugin.name == CORE else None
            if isinstance(refused, (TypeError, ValueError)):  # castform's own parts refuse nothing but args
                self.faults.add(at, f"{plugin.name}/{spec.name}: {refused}")
                return None
            self.faults.add_error(at, error)
            return None

    def find_function(
        self, part: Part, at: str
    ) -> tuple[Callable[..., Any], dict[str, Any], UsedPart] | None:
        """Return a reward's function with its constants, checked by the config model where it has one."""
        found = self.find(RewardSpec, part, at)
        if found is None:
            return None
        plugin, spec = found
        try:
            function = load_factory(plugin, spec)
            model = load_config_model(plugin, spec)
            constants = dict(part.args)
            if model is not None:
                config = validate_args(model, part.args, f"{plugin.name}/{spec.name}", what=spec.kind)
                constants = config.model_dump()
            return function, constants, self._describe(plugin, spec)
        except CastformError as error:
            self.faults.add_error(at, error)
            return None

    def source_folder(self, kind: type[Spec], part: Part) -> Path:
        """Return the folder of a part's code, where its relative paths start."""
        plugin = self.registry.load(part.id)
        spec = plugin.find_spec(kind, self.registry.find(part.id).member)
        return _file_of(load_factory(plugin, spec), spec.factory).parent

    def _describe(self, plugin: Plugin, spec: Spec) -> UsedPart:
        module = spec.factory.partition(":")[0]
        return UsedPart(
            kind=spec.kind,
            id=f"{plugin.name}/{normalize_name(spec.name)}",
            summary=spec.summary,
            distribution=plugin.entry.distribution,
            version=plugin.entry.version,
            content_sha256=self._hash(plugin, type(spec), module),
            module=module,
        )

    def _hash(self, plugin: Plugin, kind: type[Spec], module: str) -> str:
        """Hash the top-level package of a plugin's part; of castform's own parts their module and what it stands on."""
        init = Path(str(sys.modules[module.partition(".")[0]].__file__)).resolve()
        roots = [init.parent if init.name == "__init__.py" else init]
        if plugin.name == CORE:
            import benchmax.rewards

            file = Path(str(sys.modules[module].__file__))
            roots = [file.parent if file.name == "__init__.py" else file]
            roots += [Path(benchmax.rewards.__file__).parent] if kind is RewardSpec else []
        for root in roots:
            if root not in self.hashes:
                self.hashes[root] = combine_hashes(hash_files(root))
        return hashlib.sha256("".join(self.hashes[root] for root in roots).encode()).hexdigest()


def _file_of(factory: Callable[..., Any], reference: str) -> Path:
    try:
        return Path(inspect.getfile(inspect.unwrap(factory))).resolve()
    except TypeError:  # an instance with __call__
        return Path(str(sys.modules[reference.partition(":")[0]].__file__)).resolve()


def _find_other(plugin: Plugin, kind: type[Spec], member: str | None) -> str | None:
    """Return the kind that the plugin has under this name, if it is another one."""
    for other in REGISTRATION_HOOKS:
        try:
            if other is not kind and member is not None and member in plugin.specs(other):
                return other.kind
        except PluginFailure:
            continue
    return None


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def list_tool_names(made: object) -> list[str]:
    """Return the names of the tools that a factory made; none where only a rollout can tell (a ToolSource).

    TypeError or ValueError: it made no tool, or one that no model could call.
    """
    from benchmax.envs.tools import FunctionTool
    from benchmax.envs.toolset import read_toolset

    if isinstance(made, FunctionTool):
        return [made.name]
    if inspect.isclass(made):
        return list(read_toolset(made).tools)
    if inspect.isroutine(made) or (callable(made) and not hasattr(made, "open")):
        return [FunctionTool(function=made).name]
    if not callable(getattr(made, "open", None)):
        raise TypeError(f"its factory made {type(made).__name__}, which is no tool")
    return []
