"""Run inside an isolated environment: load a distribution's plugins and say what they register.

    python -m castform.isolation.describe DISTRIBUTION

One line of JSON on stdout. Imports what a worker may import and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from castform.errors import CastformError
from castform.plugins.catalog import CatalogEntry, list_installed
from castform.plugins.failure import PluginFailure
from castform.plugins.loader import InstalledEntryPoint
from castform.plugins.names import is_name, normalize_name
from castform.plugins.plugin import REGISTRATION_HOOKS, Plugin
from castform.plugins.specs import Spec


def describe_distribution(name: str) -> dict[str, Any]:
    """Return what is known of an installed distribution and its plugins, all of them loaded.

    Raises CastformError when it has none, PluginFailure when one is broken.
    """
    entries = [
        entry for entry in list_installed() if normalize_name(entry.distribution) == normalize_name(name)
    ]
    if not entries:
        raise CastformError(f"{name} has no entry point in the group 'castform', so it is no plugin")
    first = entries[0]
    return {
        "distribution": first.distribution,
        "version": first.version,
        "summary": first.summary,
        "requirements": list(first.requirements),
        "metadata": os.path.relpath(first.path, sys.prefix),
        "plugins": {normalize_name(entry.name): _describe_plugin(entry) for entry in entries},
    }


def _describe_plugin(entry: CatalogEntry) -> dict[str, Any]:
    if not is_name(entry.name):
        raise PluginFailure(
            entry.name, entry.distribution, "metadata", f"{entry.name!r} is no usable plugin name"
        )
    plugin = InstalledEntryPoint(entry=entry).load()
    return {
        "module": entry.module,
        "registers": {kind.kind: _describe_specs(plugin, kind) for kind in REGISTRATION_HOOKS},
    }


def _describe_specs(plugin: Plugin, kind: type[Spec]) -> list[dict[str, Any]]:
    return [spec.as_dict() for spec in plugin.specs(kind).values()]


def main() -> int:
    """Print the description; what a plugin prints goes to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        described = describe_distribution(sys.argv[1])
    except CastformError as error:
        print(error, file=sys.stderr)  # noqa: T201  (a program of its own)
        return 1
    with os.fdopen(answer, "w", encoding="utf-8") as stream:
        stream.write(f"{json.dumps(described)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
