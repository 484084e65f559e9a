"""`castform env`: what environments there are, and what one looks like."""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_clashes, print_json, print_note, print_table

if TYPE_CHECKING:
    from castform.certify.certificates import CertificateState
    from castform.plugins.plugin import Plugin

    _Declare = Callable[[argparse.ArgumentParser], None]

LATE: dict[str, tuple[str, str, str, str]] = {
    "new": ("castform.cli.env_new", "add_arguments", "run", "write a new plugin from a template"),
    "check": (
        "castform.cli.env_check",
        "add_arguments",
        "run",
        "build a plugin, install it elsewhere and hold it to the rules",
    ),
    "certify": (
        "castform.cli.certify",
        "add_arguments",
        "run",
        "say whether an environment can be gamed, and why",
    ),
    "install": ("castform.cli.env_install", "add_install_arguments", "install", "install a plugin"),
    "remove": (
        "castform.cli.env_install",
        "add_remove_arguments",
        "remove",
        "remove a plugin that is installed isolated",
    ),
}
"""Actions whose module is imported when they are asked for: module, what declares, what runs, one line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    late: Any = functools.partial(_LateParser, type(parser))  # Any: argparse calls no more of it
    commands = parser.add_subparsers(
        dest="action",
        required=True,
        metavar="|".join(("list", "show", *LATE)),
        prog=parser.prog,
        parser_class=late,
    )
    _add_action(commands, "list", "list plugins, or the environments and parts of one", _declare_list)
    _add_action(commands, "show", "show an environment's data, tools, rewards and arguments", _declare_show)
    for name, (module, function, _, summary) in LATE.items():
        _add_action(commands, name, summary, functools.partial(_declare_late, module, function))


def _add_action(commands: Any, name: str, summary: str, declare: _Declare) -> None:
    """Add an action whose own --help begins with its line in the list."""
    commands.add_parser(
        name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.", declare=declare
    )


class _LateParser:
    """An action's parser, made when its words are parsed: listing makes no other and imports nothing for them."""

    def __init__(
        self, make: Callable[..., argparse.ArgumentParser], *, declare: _Declare, **options: Any
    ) -> None:  # the options are argparse's own
        self._make = make
        self._declare = declare
        self._options = options

    def parse_known_args(self, *args: Any, **options: Any) -> Any:  # argparse's own signature
        parser = self._make(**self._options)
        self._declare(parser)
        # hints end with "-v shows the traceback": anywhere will do
        parser.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show logs and tracebacks",
        )
        return parser.parse_known_args(*args, **options)


def _declare_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plugin", nargs="?", help="load this plugin and list its environments and parts")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def _declare_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", help="an id (plugin or plugin/environment), a Python file, or a TOML file that composes one"
    )
    parser.add_argument(
        "-a",
        "--arg",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="one argument of the environment, seed=2 for one; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def _declare_late(module: str, function: str, parser: argparse.ArgumentParser) -> None:
    getattr(importlib.import_module(module), function)(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action that was asked for."""
    if args.action == "show":
        from castform.cli.env_show import show_environment

        return show_environment(args.id, args.arg, as_json=args.json)
    if args.action in LATE:
        module, _, function, _ = LATE[args.action]
        return int(getattr(importlib.import_module(module), function)(args))
    if args.plugin:
        return _list_environments(args.plugin, as_json=args.json)
    return _list_plugins(as_json=args.json)


def _list_plugins(*, as_json: bool) -> int:
    """Read metadata and certificates only: no plugin is imported."""
    from castform.certify.certificates import list_made_here, read_states, summarize_states
    from castform.isolation.store import add_isolated
    from castform.plugins.catalog import allowed_names, find_clashes, is_core, list_installed, select_allowed

    listing = add_isolated(list_installed())
    entries = [e for e in select_allowed(listing.entries, allowed_names()) if not is_core(e)]
    isolated = {id(e) for e in listing.isolated}
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
                    "isolated": id(e) in isolated,
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
                    f"{e.version} (isolated)" if id(e) in isolated else e.version,
                    summarize_states(states[e.path + e.name]),
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


def _list_environments(id: str, *, as_json: bool) -> int:
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
