"""Load every installed plugin in turn and say which ones are broken, and where."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass

from castform.plugins.catalog import CORE, CatalogEntry, is_core, list_installed
from castform.plugins.commands import CommandGroup
from castform.plugins.failure import ContainedError, PluginFailure, call_contained
from castform.plugins.loader import load_registry
from castform.plugins.names import normalize_name
from castform.plugins.plugin import REGISTRATION_HOOKS, Plugin
from castform.plugins.registry import Registry


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginReport:
    """What came of loading one plugin."""

    name: str
    distribution: str
    seconds: float
    """Time that loading it took."""
    failure: PluginFailure | None = None

    def as_dict(self) -> dict[str, object]:
        """Return plain data."""
        failure = self.failure
        return {
            "plugin": self.name,
            "distribution": self.distribution,
            "seconds": round(self.seconds, 3),
            "ok": failure is None,
            "stage": failure.stage if failure else None,
            "error": str(failure) if failure else None,
        }


def check_plugins(name: str | None = None, *, registry: Registry[Plugin] | None = None) -> list[PluginReport]:
    """Load each allowed plugin, ask its registration hooks and look for what its specs name.

    Factories are not imported, only looked for: an engine's would import torch. With a
    name, only that plugin; UnknownPluginError when it is not installed.
    """
    plugins = load_registry() if registry is None else registry
    names = [plugins.find(name).plugin] if name else plugins.names()
    reports = [_check_plugin(plugins, plugin) for plugin in names]
    if name is None and registry is None:
        reports += [_report_reserved(entry) for entry in list_installed() if _is_reserved(entry)]
    return reports


def _check_plugin(plugins: Registry[Plugin], name: str) -> PluginReport:
    started = time.perf_counter()
    failure = plugins.check(name)
    distribution = failure.distribution if failure else plugins.load(name).entry.distribution
    if failure is None:
        failure = find_failure(plugins.load(name))
    return PluginReport(
        name=name, distribution=distribution, seconds=time.perf_counter() - started, failure=failure
    )


def find_failure(plugin: Plugin) -> PluginFailure | None:
    """Ask a loaded plugin for all that it registers; return the first thing that is wrong."""
    try:
        for kind in REGISTRATION_HOOKS:
            for spec in plugin.specs(kind).values():
                for reference in (spec.factory, spec.config):
                    if reference is not None:
                        _check_module(plugin, f"{spec.kind} {spec.name!r}", reference)
        for command in list_commands(plugin).commands.values():
            _check_module(plugin, f"command {command.name!r}", command.run)
    except PluginFailure as failure:
        return failure
    return None


def list_commands(plugin: Plugin) -> CommandGroup:
    """Return the commands that a plugin adds. Raises PluginFailure when its hook raises."""
    group = CommandGroup()
    plugin.call("register_commands", group=group)
    return group


def _check_module(plugin: Plugin, what: str, reference: str) -> None:
    module = reference.partition(":")[0]
    try:
        found = call_contained(lambda: importlib.util.find_spec(module))
    except ContainedError as contained:
        raise plugin.fail(f"{what} names {reference}: {contained}") from contained.cause
    if found is None:
        raise plugin.fail(f"{what} names {reference}, and there is no module {module}")


def _is_reserved(entry: CatalogEntry) -> bool:
    return normalize_name(entry.name) == CORE and not is_core(entry)


def _report_reserved(entry: CatalogEntry) -> PluginReport:
    failure = PluginFailure(
        entry.name, entry.distribution, "name clash", f"the name {CORE!r} is castform's own"
    )
    return PluginReport(name=entry.name, distribution=entry.distribution, seconds=0.0, failure=failure)
