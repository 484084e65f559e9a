"""`castform plugins`: what is installed, what one brings, which are broken."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_clashes, print_fields, print_json, print_note, print_table, print_text

if TYPE_CHECKING:
    from castform.plugins.catalog import CatalogEntry
    from castform.plugins.plugin import Plugin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("plugin", nargs="?", help="load this plugin and show what it brings")
    parser.add_argument(
        "--check", action="store_true", help="load each plugin in turn and say which are broken"
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """List, show one, or check; a check exits 1 when a plugin is broken."""
    if args.check:
        return _check_plugins(args.plugin, as_json=args.json)
    if args.plugin:
        return _show_plugin(args.plugin, as_json=args.json)
    return _list_plugins(as_json=args.json)


def _list_plugins(*, as_json: bool) -> int:
    """Read metadata only: no plugin is imported."""
    from castform.isolation.store import add_isolated
    from castform.plugins.catalog import allowed_names, find_clashes, list_installed, select_allowed

    listing = add_isolated(list_installed())
    entries = select_allowed(listing.entries, allowed_names())
    if as_json:
        print_json([{**_entry_as_dict(e), "isolated": listing.is_isolated(e)} for e in entries])
    else:
        print_table(
            ["PLUGIN", "SUMMARY", "DISTRIBUTION", "VERSION"],
            [
                [e.name, e.summary, e.distribution, f"{e.version}{' (isolated)' * listing.is_isolated(e)}"]
                for e in entries
            ],
        )
    print_clashes(find_clashes(entries))
    return 0


def _show_plugin(id: str, *, as_json: bool) -> int:
    from castform.plugins.hookspec_version import HOOKSPEC_VERSION
    from castform.plugins.loader import load_registry

    plugin = load_registry().load(id)
    specs = _list_specs(plugin)
    hooks = plugin.list_hooks()
    if as_json:
        print_json(
            {
                **_entry_as_dict(plugin.entry),
                "hookspec_version": HOOKSPEC_VERSION,
                "hooks": hooks,
                "registers": specs,
            }
        )
        return 0
    print_fields(
        {
            "plugin": plugin.name,
            "summary": plugin.entry.summary,
            "distribution": f"{plugin.entry.distribution} {plugin.entry.version}",
            "hooks": ", ".join(hooks),
        }
    )
    if specs:
        print_text()
        print_table(["KIND", "ID", "SUMMARY"], [[s["kind"], s["id"], s["summary"]] for s in specs])
    return 0


def _check_plugins(name: str | None, *, as_json: bool) -> int:
    from castform.plugins.check import check_plugins

    reports = check_plugins(name)
    if as_json:
        print_json([r.as_dict() for r in reports])
    else:
        print_table(
            ["PLUGIN", "DISTRIBUTION", "SECONDS", "RESULT"],
            [
                [
                    r.name,
                    r.distribution,
                    f"{r.seconds:.2f}",
                    "ok" if r.failure is None else f"broken: {r.failure}",
                ]
                for r in reports
            ],
        )
    broken = [r for r in reports if r.failure is not None]
    print_note(f"{len(reports) - len(broken)} ok, {len(broken)} broken")
    return 1 if broken else 0


def _list_specs(plugin: Plugin) -> list[dict[str, Any]]:
    from castform.plugins.plugin import REGISTRATION_HOOKS

    return [
        {"kind": spec.kind, "id": f"{plugin.name}/{name}", "summary": spec.summary}
        for kind in REGISTRATION_HOOKS
        for name, spec in plugin.specs(kind).items()
    ]


def _entry_as_dict(entry: CatalogEntry) -> dict[str, str]:
    return {
        "plugin": entry.name,
        "summary": entry.summary,
        "distribution": entry.distribution,
        "version": entry.version,
    }
