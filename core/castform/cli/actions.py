"""Commands that have actions (`castform sft check`): one table, and only the action that is asked for is imported."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from typing import Any

Actions = Mapping[str, tuple[str, str]]
"""Name to (module, one line). A module has add_arguments(parser) and run(args) -> int."""


def add_actions(parser: argparse.ArgumentParser, actions: Actions) -> None:
    """Declare the actions of a command."""
    commands = parser.add_subparsers(
        dest="action", required=True, metavar="|".join(actions), prog=parser.prog
    )
    for name, (module, summary) in actions.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
        command.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show logs and tracebacks",
        )
        _add_late(command, module)


def run_action(args: argparse.Namespace, actions: Actions) -> int:
    """Run the action that was asked for."""
    return int(importlib.import_module(actions[args.action][0]).run(args))


def _add_late(parser: argparse.ArgumentParser, module: str) -> None:
    """Declare an action's arguments when its words are parsed: the others need not be imported."""
    parse = parser.parse_known_args

    def parse_with_arguments(*args: Any, **options: Any) -> Any:  # argparse's own signature
        importlib.import_module(module).add_arguments(parser)
        return parse(*args, **options)

    parser.parse_known_args = parse_with_arguments  # type: ignore[method-assign]  # argparse has no other seam
