"""From a provider's name to the provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from castform.errors import UsageError
from castform.plugins.catalog import CORE
from castform.plugins.failure import PluginFailure
from castform.plugins.loader import load_registry
from castform.plugins.names import normalize_name, quote_names, suggest_names
from castform.plugins.plugin import Plugin
from castform.plugins.references import call_factory
from castform.plugins.registry import Registry
from castform.plugins.specs import SandboxSpec
from castform.sandbox.contract import SandboxProvider

NOT_INSTALLED = {"docker": "castform-sandbox-docker", "bubblewrap": "castform-sandbox-bubblewrap"}
"""Names of castform's own plugins, and what to install for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedProvider:
    """A provider that is installed."""

    name: str
    """What `load_provider` takes."""
    summary: str
    distribution: str


def load_provider(
    name: str, *, registry: Registry[Plugin] | None = None, **options: Any
) -> SandboxProvider:  # Any: options are the provider's own
    """Return a provider of sandboxes; nothing is started or probed yet.

    castform's own go by their bare name (`process`), others by `plugin` or `plugin/name`.
    Raises UsageError for a name that does not exist, ConfigError for wrong options, MissingError
    for a missing extra, and PluginFailure when the plugin is broken.
    """
    plugins = load_registry() if registry is None else registry
    core = plugins.load(CORE)
    own = core.specs(SandboxSpec)
    bare = normalize_name(name)
    if bare in own:
        return _make(core, own[bare], options)
    if "/" not in name and bare not in plugins.names():
        raise _make_unknown(name, sorted({*own, *NOT_INSTALLED}))
    plugin = plugins.load(name)
    return _make(plugin, plugin.find_spec(SandboxSpec, plugins.find(name).member), options)


def list_providers(*, registry: Registry[Plugin] | None = None) -> list[ListedProvider]:
    """Return every provider of every plugin that can be loaded, castform's own first."""
    plugins = load_registry() if registry is None else registry
    found: list[ListedProvider] = []
    for name in [CORE, *(other for other in plugins.names() if other != CORE)]:
        try:
            plugin = plugins.load(name)
        except (PluginFailure, UsageError):  # broken, isolated, or its name is claimed twice
            continue  # `castform plugins --check` shows these
        specs = plugin.specs(SandboxSpec)
        for member, spec in specs.items():
            found.append(
                ListedProvider(
                    name=_shown_name(name, member, alone=len(specs) == 1),
                    summary=spec.summary,
                    distribution=plugin.entry.distribution,
                )
            )
    return found


def _shown_name(plugin: str, member: str, *, alone: bool) -> str:
    if plugin == CORE:
        return member
    return plugin if alone or member == "default" else f"{plugin}/{member}"


def _make(plugin: Plugin, spec: SandboxSpec, options: dict[str, Any]) -> SandboxProvider:  # Any: as above
    return cast(SandboxProvider, call_factory(plugin, spec, options)[0])  # a Protocol, checked by use


def _make_unknown(name: str, known: list[str]) -> UsageError:
    package = NOT_INSTALLED.get(normalize_name(name))
    if package is not None:
        return UsageError(f"the sandbox provider {name!r} is not installed", hint=f"pip install {package}")
    close = suggest_names(name, known)
    others = " and ".join(f"{name} by `pip install {package}`" for name, package in NOT_INSTALLED.items())
    hint = f"did you mean {close[0]!r}?" if close else f"there are {quote_names(known)}: {others}"
    return UsageError(f"no sandbox provider called {name!r}", hint=hint)
