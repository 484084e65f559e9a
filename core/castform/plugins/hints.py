"""Ask plugins what an error means. Only those that this process already uses are asked."""

from __future__ import annotations

from castform.plugins.catalog import CORE
from castform.plugins.failure import PluginFailure
from castform.plugins.loader import load_registry
from castform.plugins.plugin import Plugin


def explain_error(error: BaseException) -> str | None:
    """Return the first hint that a plugin in use has for an error, castform's own last; None without one.

    Never raises: an error is being shown already.
    """
    for plugin in _plugins_in_use():
        try:
            answers = plugin.call("explain_error", error=error)
        except PluginFailure:
            continue
        for answer in answers:
            if isinstance(answer, str) and answer.strip():
                return answer.strip()
    return None


def _plugins_in_use() -> list[Plugin]:
    registry = load_registry()
    found: list[Plugin] = []
    for name in sorted(registry.names(), key=lambda n: (n == CORE, n)):
        if name != CORE and not registry.is_imported(name):
            continue
        try:
            found.append(registry.load(name))
        except PluginFailure:
            continue
    return found
