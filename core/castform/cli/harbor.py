"""`castform harbor`: run Harbor task folders, look for what is wrong with them, write some."""

from __future__ import annotations

import argparse

from castform.cli.actions import Actions, add_actions, run_action

ACTIONS: Actions = {
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    add_actions(parser, ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action that was asked for."""
    return run_action(args, ACTIONS)
