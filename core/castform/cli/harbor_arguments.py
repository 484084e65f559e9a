"""The options that the actions of `castform harbor` share: which tasks, where and how many trials run."""

from __future__ import annotations

import argparse
from pathlib import Path

from castform.errors import UsageError


def add_task_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which tasks: a folder, or a registry.json with --dataset."""
    parser.add_argument("tasks", type=Path, help="a task's folder, a folder of them, or a registry.json")
    parser.add_argument(
        "--dataset", metavar="NAME", help="which dataset of a registry.json, name or name@version"
    )


def add_trial_arguments(parser: argparse.ArgumentParser, *, concurrency: int) -> None:
    """Declare where trials run, how many at a time (`concurrency` by default) and where their files go."""
    parser.add_argument(
        "--sandbox", default="docker", metavar="NAME", help="where castform runs trials; default: docker"
    )
    parser.add_argument(
        "--concurrency",
        type=int,
        default=concurrency,
        metavar="N",
        help=f"trials at a time; default: {concurrency}",
    )
    parser.add_argument("--jobs-dir", type=Path, default=Path("jobs"), metavar="DIR", help="default: jobs")


def check_concurrency(args: argparse.Namespace) -> None:
    """Raise UsageError unless a trial may run."""
    if args.concurrency < 1:
        raise UsageError("--concurrency is at least 1")
