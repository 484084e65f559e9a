"""Plugins of castform's own that need not be installed: what to say when an id names one that is not."""

from __future__ import annotations

from collections.abc import Iterable

from castform.plugins.names import normalize_name, suggest_names

KNOWN_PLUGINS = (
    "arith",
    "code",
    "games",
    "gym",
    "harbor",
    "lookup",
    "math",
    "openenv",
    "search",
    "shell",
    "verifiers",
)
"""Names of environment plugins; the distribution is `castform-env-<name>`."""


def explain_absence(name: str, installed: Iterable[str]) -> str | None:
    """Return how to get a plugin that is not installed; None when it is not one that we know.

    A name that is close to an installed one is more likely a slip: then there is nothing to say.
    """
    wanted = normalize_name(name)
    if wanted in KNOWN_PLUGINS:
        return f"`pip install castform-env-{wanted}` brings it"
    if suggest_names(wanted, installed):
        return None
    close = suggest_names(wanted, KNOWN_PLUGINS)
    return f"did you mean {close[0]!r}? `pip install castform-env-{close[0]}` brings it" if close else None
