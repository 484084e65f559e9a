"""`castform env list`: the plugins that are installed, or the environments and parts of one.

The first is asked for all the time and is held to 150 ms with 200 plugins, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_clashes, print_json, print_note, print_table

if TYPE_CHECKING:
    from castform.certify.certificates import CertificateState
    from castform.plugins.plugin import Plugin

OTHER_PLUGINS = ("castform-sandbox-", "castform-watch-", "castform-engine-", "castform-harness-")
"""How distributions without environments are called: there is nothing in them to certify."""


def list_plugins(*, as_json: bool) -> int:
    """Show what is installed, from metadata and certificates alone: no plugin is imported."""
    from castform.certify.certificates import list_made_here, read_states, summarize_states
    from castform.isolation.store import add_isolated
    from castform.plugins.catalog import allowed_names, find_clashes, is_core, list_installed, select_allowed

    listing = add_isolated(list_installed())
    entries = [e for e in select_allowed(listing.entries, allowed_names()) if not is_core(e)]
    made_here = list_made_here()
    states = {entry.path + entry.name: read_states(entry, made_here) for entry in entries}
    if as_json:
        print_json(
            [
                {
                    "plugin": e.name,
                    "summary": e.summary,
                    "distribution": e.distribution,
                    "version": e.version,
                    "isolated": listing.is_isolated(e),
                    "certificates": _plain_states(states[e.path + e.name]),
                }
                for e in entries
            ]
        )
    elif entries:
        print_table(
            ["PLUGIN", "SUMMARY", "DISTRIBUTION", "VERSION", "CERTIFICATE"],
            [
                [
                    e.name,
                    e.summary,
                    e.distribution,
                    f"{e.version} (isolated)" if listing.is_isolated(e) else e.version,
                    summarize_states(states[e.path + e.name])
                    if states[e.path + e.name] or not e.distribution.startswith(OTHER_PLUGINS)
                    else "-",
                ]
                for e in entries
            ],
        )
    else:
        print_note("no plugin is installed; they come with `pip install castform-env-<name>`")
    for e in select_allowed(listing.replaced, allowed_names()):
        print_note(
            f"{e.name} {e.version} of {e.distribution} is installed here too; the isolated one is used"
        )
    print_clashes(find_clashes(entries))
    return 0


def list_environments(id: str, *, as_json: bool) -> int:
    """Load one plugin and show its environments and parts."""
    from castform.certify.certificates import read_states
    from castform.plugins.loader import load_registry
    from castform.plugins.specs import EnvironmentSpec

    plugin = load_registry().load(id)
    specs = plugin.specs(EnvironmentSpec)
    states = {state.environment: state for state in read_states(plugin.entry)}
    if as_json:
        print_json(
            [
                {
                    "id": f"{plugin.name}/{name}",
                    "summary": spec.summary,
                    "tags": list(spec.tags),
                    "requires": list(spec.requires),
                    "certificate": next(iter(_plain_states(s for s in [states.get(name)] if s)), None),
                }
                for name, spec in specs.items()
            ]
        )
    elif specs:
        print_table(
            ["ENVIRONMENT", "SUMMARY", "TAGS", "CERTIFICATE"],
            [
                [f"{plugin.name}/{name}", spec.summary, " ".join(spec.tags), str(states.get(name, "none"))]
                for name, spec in specs.items()
            ],
        )
    else:
        print_note(
            f"plugin {plugin.name!r} has no environments; `castform plugins {plugin.name}` shows the rest"
        )
    if not as_json:
        _print_parts(plugin)
    return 0


def _print_parts(plugin: Plugin) -> None:
    """List what a plugin has for environments that are composed in TOML."""
    from castform.cli.output import print_text
    from castform.plugins.specs import DatasetSpec, RewardSpec, RubricSpec, Spec, ToolSpec

    kinds: tuple[type[Spec], ...] = (DatasetSpec, ToolSpec, RewardSpec, RubricSpec)
    rows = [
        [kind.kind, f"{plugin.name}/{name}", spec.summary]
        for kind in kinds
        if plugin.interpreter is None
        for name, spec in plugin.specs(kind).items()
    ]
    if rows:
        print_text()
        print_table(["PART", "ID", "SUMMARY"], rows)


def _plain_states(states: Iterable[CertificateState]) -> list[dict[str, Any]]:
    return [
        {
            "environment": state.environment,
            "status": state.status,
            "changes": list(state.changes),
            "shipped": state.shipped,
        }
        for state in states
    ]
