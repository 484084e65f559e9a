"""Load one installed plugin into a PluginManager of its own.

The order matters: the version range is checked before a line of the plugin runs, its
hooks before one is called, and a plugin that fails leaves nothing behind.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement

from castform import __version__
from castform.isolation.store import Listing, add_isolated
from castform.plugins.catalog import (
    CORE,
    CatalogEntry,
    allowed_names,
    is_core,
    list_installed,
)
from castform.plugins.failure import ContainedError, PluginFailure, call_contained
from castform.plugins.names import normalize_name
from castform.plugins.plugin import Plugin
from castform.plugins.registration import register_hooks
from castform.plugins.registry import Registry

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
class InstalledEntryPoint:
    """A catalog entry that can be loaded."""

    entry: CatalogEntry
    isolated: bool = False
    """It is installed in an environment of its own: nothing of it is imported here."""

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
        """Check the version range, import the module and register its hooks.

        Of an isolated plugin the environments that it registered when it was installed are known.
        """
        check_castform_version(self.entry)
        name = normalize_name(self.entry.name)
        if self.isolated:
            from castform.isolation.installed import load_isolated

            return load_isolated(self.entry)
        module = _import_plugin(self.entry, name)
        return Plugin(name=name, entry=self.entry, manager=register_hooks(self.entry, name, module))


def load_registry(path: Sequence[str] | None = None) -> Registry[Plugin]:
    """Return a registry of what is installed and allowed. Reads metadata, imports no plugin.

    Without `path` that includes what is installed isolated, which comes before the same distribution here.
    """
    allowed = allowed_names()
    listing = add_isolated(list_installed(path)) if path is None else Listing(list_installed(path), [], [])
    entries = [e for e in listing.entries if normalize_name(e.name) != CORE or is_core(e)]
    if not any(is_core(e) for e in entries):
        entries.append(BUILTIN)
    points = [InstalledEntryPoint(entry=e, isolated=listing.is_isolated(e)) for e in entries]
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
