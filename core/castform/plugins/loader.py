"""Load one installed plugin into a PluginManager of its own.

The order matters: the version range is checked before a line of the plugin runs, its
hooks before one is called, and a plugin that fails leaves nothing behind.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pluggy
from packaging.requirements import InvalidRequirement, Requirement

from castform import __version__
from castform.errors import CastformError, UsageError
from castform.plugins import hookspecs
from castform.plugins.catalog import (
    CORE,
    GROUP,
    CatalogEntry,
    allowed_names,
    is_core,
    list_installed,
)
from castform.plugins.failure import ContainedError, PluginFailure, call_contained, describe_cause
from castform.plugins.names import normalize_name, quote_names, suggest_names
from castform.plugins.registry import Registry
from castform.plugins.specs import (
    DatasetSpec,
    EngineSpec,
    EnvironmentSpec,
    HarnessSpec,
    RewardSpec,
    RubricSpec,
    SandboxSpec,
    Spec,
    SpecError,
    ToolSpec,
)

S = TypeVar("S", bound=Spec)

REGISTRATION_HOOKS: dict[type[Spec], str] = {
    EnvironmentSpec: "register_environments",
    DatasetSpec: "register_datasets",
    ToolSpec: "register_tools",
    RewardSpec: "register_rewards",
    RubricSpec: "register_rubrics",
    SandboxSpec: "register_sandboxes",
    HarnessSpec: "register_harnesses",
    EngineSpec: "register_engines",
}
BUILTIN = CatalogEntry(
    name=CORE,
    module="castform.plugins.builtin",
    distribution=CORE,
    version=__version__,
    summary="What castform brings itself: engines and deterministic rewards",
    requirements=(),
    path="",
)
"""Known without metadata, so that castform works from a source folder too."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One loaded plugin: its hooks, called when their answers are needed."""

    name: str
    """Normal form."""
    entry: CatalogEntry
    manager: pluggy.PluginManager = field(repr=False)

    def specs(self, kind: type[S]) -> dict[str, S]:
        """Return what the plugin registers of one kind, by name in normal form.

        Raises PluginFailure when the hook raises, returns something else, or uses a name twice.
        """
        hook = REGISTRATION_HOOKS[kind]
        found: dict[str, S] = {}
        for result in self.call(hook):
            for spec in self._check_result(hook, kind, result):
                key = normalize_name(spec.name)
                if key in found:
                    raise self.fail(SpecError(f"{hook} registers {spec.name!r} twice"))
                found[key] = spec
        return found

    def find_spec(self, kind: type[S], member: str | None) -> S:
        """Return one spec by its name; without one, the only spec or the one called `default`.

        Raises UsageError when there is no such one.
        """
        specs = self.specs(kind)
        what = kind.kind
        if not specs:
            raise UsageError(
                f"plugin {self.name!r} has no {what}",
                hint=f"`castform plugins {self.name}` shows what it has",
            )
        if member is None:
            if len(specs) == 1:
                return next(iter(specs.values()))
            if "default" in specs:
                return specs["default"]
            ids = [f"{self.name}/{name}" for name in specs]
            raise UsageError(
                f"plugin {self.name!r} has {len(specs)} {what}s: {quote_names(ids)}",
                hint=f"name one, as in {ids[0]!r}",
            )
        if member not in specs:
            close = suggest_names(member, specs)
            ids = [f"{self.name}/{name}" for name in (close or specs)]
            raise UsageError(
                f"plugin {self.name!r} has no {what} called {member!r}",
                hint=f"did you mean {ids[0]!r}?" if close else f"it has {quote_names(ids)}",
            )
        return specs[member]

    def call(self, hook: str, **arguments: object) -> list[Any]:
        """Call one hook, contained; return its answers (at most one: a plugin implements a hook once)."""
        caller = getattr(self.manager.hook, hook)
        try:
            answer = call_contained(lambda: caller(**arguments))
        except ContainedError as contained:
            raise PluginFailure(
                self.name, self.entry.distribution, "registration", _name_hook(hook, contained.cause)
            ) from contained.cause
        if isinstance(answer, list):
            return answer
        return [] if answer is None else [answer]  # a firstresult hook

    def implements(self, hook: str) -> bool:
        """Say whether the plugin has this hook."""
        return bool(getattr(self.manager.hook, hook).get_hookimpls())

    def list_hooks(self) -> list[str]:
        """Return the hooks that the plugin has, in the order of hookspecs.py."""
        return [name for name in vars(hookspecs) if name in vars(self.manager.hook) and self.implements(name)]

    def fail(self, cause: BaseException | str) -> PluginFailure:
        """Make the failure of a registration."""
        return PluginFailure(self.name, self.entry.distribution, "registration", cause)

    def _check_result(self, hook: str, kind: type[S], result: object) -> Sequence[S]:
        if isinstance(result, Spec):
            result = [result]
        if isinstance(result, str | bytes) or not isinstance(result, Iterable):
            raise self.fail(SpecError(f"{hook} returned {result!r}, not {kind.__name__} objects"))
        try:
            items = call_contained(lambda: list(result))  # a generator runs here
        except ContainedError as contained:
            raise self.fail(_name_hook(hook, contained.cause)) from contained.cause
        for item in items:
            if not isinstance(item, kind):
                raise self.fail(SpecError(f"{hook} returned {item!r}, not {kind.__name__} objects"))
        return cast("list[S]", items)  # every item was just checked


@dataclass(frozen=True, kw_only=True)
class InstalledEntryPoint:
    """A catalog entry that can be loaded."""

    entry: CatalogEntry

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def dist(self) -> str:
        return self.entry.distribution

    @property
    def version(self) -> str:
        return self.entry.version

    @property
    def value(self) -> str:
        return self.entry.module

    def load(self) -> Plugin:
        """Check the version range, import the module and register its hooks."""
        check_castform_version(self.entry)
        name = normalize_name(self.entry.name)
        module = _import_plugin(self.entry, name)
        return Plugin(name=name, entry=self.entry, manager=_register(self.entry, name, module))


def load_registry(path: Sequence[str] | None = None) -> Registry[Plugin]:
    """Return a registry of what is installed and allowed. Reads metadata, imports no plugin."""
    allowed = allowed_names()
    entries = [e for e in list_installed(path) if normalize_name(e.name) != CORE or is_core(e)]
    if not any(is_core(e) for e in entries):
        entries.append(BUILTIN)
    points = [InstalledEntryPoint(entry=e) for e in entries]
    return Registry(points, allowed=None if allowed is None else allowed | {CORE})


def check_castform_version(entry: CatalogEntry, version: str = __version__) -> None:
    """Raise PluginFailure when the plugin's own requirement on castform does not hold."""
    for text in entry.requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise PluginFailure(entry.name, entry.distribution, "metadata", error) from error
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            raise PluginFailure(
                entry.name,
                entry.distribution,
                "castform version",
                f"version {entry.version} needs castform{requirement.specifier}, and this is castform {version}",
                hint=f"pip install --upgrade castform {entry.distribution}",
            )


def _import_plugin(entry: CatalogEntry, name: str) -> object:
    module_name, _, attribute = entry.module.partition(":")
    before = set(sys.modules)

    def load() -> object:
        found: object = importlib.import_module(module_name)
        for part in attribute.split(".") if attribute else ():
            found = getattr(found, part)
        return found

    try:
        return call_contained(load)
    except ContainedError as contained:
        _forget_modules(module_name.partition(".")[0], before)
        raise PluginFailure(name, entry.distribution, "import", contained.cause) from contained.cause


def _forget_modules(package: str, before: set[str]) -> None:
    """Drop the half-imported modules of a plugin that failed."""
    for module in set(sys.modules) - before:
        if module == package or module.startswith(f"{package}."):
            del sys.modules[module]


def _register(entry: CatalogEntry, name: str, module: object) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    try:
        faults = _find_hook_faults(manager, module)
        if faults:
            raise CastformError("; ".join(faults))
        call_contained(lambda: manager.register(module, name))
        manager.check_pending()
    except (CastformError, pluggy.PluginValidationError) as error:
        raise PluginFailure(name, entry.distribution, "registration", error) from error
    except ContainedError as contained:
        raise PluginFailure(name, entry.distribution, "registration", contained.cause) from contained.cause
    return manager


def _find_hook_faults(manager: pluggy.PluginManager, plugin: object) -> list[str]:
    """Return what pluggy would not say, or not in time."""
    known = {name for name in vars(hookspecs) if hasattr(getattr(hookspecs, name), f"{GROUP}_spec")}
    faults: list[str] = []
    marked = 0
    for name in sorted(n for n in dir(plugin) if not n.startswith("__")):
        function = inspect.getattr_static(plugin, name)
        function = getattr(function, "__func__", function)
        if not inspect.isroutine(function):
            continue
        if manager.parse_hookimpl_opts(plugin, name) is None:
            if name in known:
                faults.append(f"{name} is a hook's name, but is not marked with @hookimpl")
            continue
        marked += 1
        if name not in known:
            close = suggest_names(name, {normalize_name(k): k for k in known})
            meant = next((k for k in known if close and normalize_name(k) == close[0]), None)
            faults.append(f"unknown hook {name!r}" + (f", did you mean {meant!r}?" if meant else ""))
        faults += _find_signature_faults(name, function)
    if not marked and not faults:
        faults.append("it implements no hook; mark its functions with @castform.plugins.hookimpl")
    return faults


def _find_signature_faults(name: str, function: Any) -> list[str]:  # a function of any signature
    faults = []
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        faults.append(f"{name} is async; hooks are plain functions")
    spec = getattr(hookspecs, name, None)
    allowed = list(inspect.signature(spec).parameters) if callable(spec) else []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            faults.append(f"{name}: {parameter} is never filled; name the arguments")
        elif parameter.default is not parameter.empty:
            faults.append(f"{name}: argument {parameter.name!r} has a default, so it would never be filled")
        elif callable(spec) and parameter.name not in allowed:
            has = f"it has {quote_names(allowed)}" if allowed else "it has none"
            faults.append(f"{name}: the hook has no argument {parameter.name!r}; {has}")
    return faults


def _name_hook(hook: str, cause: BaseException) -> BaseException | str:
    return f"{hook}: {describe_cause(cause)}"
