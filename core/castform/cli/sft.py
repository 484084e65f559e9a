"""`castform sft`: supervised finetuning, from a file of conversations to a better model."""

from __future__ import annotations

import argparse

from castform.cli.actions import Actions, add_actions, run_action

ACTIONS: Actions = {
    "check": (
        "castform.cli.sft_check",
        "say whether a file of conversations can be trained on, and what is in it",
    ),
    "convert": (
        "castform.cli.sft_convert",
        "convert conversations of other formats, with a word on every row",
    ),
    "train": (
        "castform.cli.sft_train",
        "finetune a model on a file of conversations, with a verdict at the end",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    add_actions(parser, ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action that was asked for."""
    return run_action(args, ACTIONS)
