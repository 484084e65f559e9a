"""`castform harbor`: run Harbor task folders, look for what is wrong with them, write some."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

ACTIONS: dict[str, tuple[str, str]] = {
    "run": ("castform.cli.harbor_run", "run task folders with an agent, and say what each one earned"),
    "lint": ("castform.cli.harbor_lint", "say what is wrong or odd about task folders; nothing is started"),
    "export": ("castform.cli.harbor_export", "write an environment's examples as task folders"),
    "trajectory": (
        "castform.cli.harbor_trajectory",
        "write a run's rollouts as ATIF files, or check such files",
    ),
    "compare": (
        "castform.cli.harbor_compare",
        "run task folders by the real harbor too, and compare the rewards",
    ),
    "install": ("castform.cli.harbor_install", "make a virtual environment with the real harbor in it"),
}
"""Name to (module, one line). A module has add_arguments(parser) and run(args) -> int, and is imported when
its action is asked for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    commands = parser.add_subparsers(
        dest="action", required=True, metavar="|".join(ACTIONS), prog=parser.prog
    )
    for name, (_, summary) in ACTIONS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
        command.add_argument(
            "-v",
            "--verbose",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show logs and tracebacks",
        )
        _add_late(command, name)


def _add_late(parser: argparse.ArgumentParser, action: str) -> None:
    """Declare an action's arguments when its words are parsed: the others need not be imported."""
    parse = parser.parse_known_args

    def parse_with_arguments(*args: Any, **options: Any) -> Any:  # argparse's own signature
        importlib.import_module(ACTIONS[action][0]).add_arguments(parser)
        return parse(*args, **options)

    parser.parse_known_args = parse_with_arguments  # type: ignore[method-assign]  # argparse has no other seam


def run(args: argparse.Namespace) -> int:
    """Run the action that was asked for."""
    return int(importlib.import_module(ACTIONS[args.action][0]).run(args))
