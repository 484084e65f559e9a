"""From an engine's name to its factory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from castform.errors import UsageError
from castform.plugins.catalog import CORE
from castform.plugins.loader import load_registry
from castform.plugins.names import normalize_name, quote_names, suggest_names
from castform.plugins.plugin import Plugin
from castform.plugins.references import load_factory
from castform.plugins.registry import Registry
from castform.plugins.specs import EngineSpec


def load_engine_factory(name: str, *, registry: Registry[Plugin] | None = None) -> Callable[..., Any]:
    """Return the factory `(RunConfig, ModelFolder) -> Engine` of an engine.

    castform's own engines go by their bare name, others by `plugin` or `plugin/engine`.
    Raises UsageError for a name that does not exist, MissingError for a missing extra.
    """
    plugins = load_registry() if registry is None else registry
    core = plugins.load(CORE)
    own = core.specs(EngineSpec)
    bare = normalize_name(name)
    if bare in own:
        return load_factory(core, own[bare])
    if "/" not in name and bare not in plugins.names():
        close = suggest_names(name, own)
        raise UsageError(
            f"no engine called {name!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"castform has {quote_names(own)}",
        )
    plugin = plugins.load(name)
    return load_factory(plugin, plugin.find_spec(EngineSpec, plugins.find(name).member))
