"""`castform env`: what environments there are, and what one looks like."""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from castform.cli.model_choice import add_environment_arguments

    parser.add_argument(
        "id", help="an id (plugin or plugin/environment), a Python file, or a TOML file that composes one"
    )
    add_environment_arguments(parser)
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
    from castform.cli.env_list import list_environments, list_plugins

    return (
        list_environments(args.plugin, as_json=args.json) if args.plugin else list_plugins(as_json=args.json)
    )
