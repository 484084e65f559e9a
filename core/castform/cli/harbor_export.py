"""`castform harbor export`: an environment's examples as Harbor task folders."""

from __future__ import annotations

import argparse
import pkgutil
from pathlib import Path

from castform.cli.model_choice import add_environment_arguments
from castform.cli.output import print_json, print_note, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("environment", help="an id, or a Python file with an environment in it")
    parser.add_argument("folder", type=Path, help="where the tasks go; a new folder")
    parser.add_argument(
        "--split", choices=("train", "eval"), default="train", help="which examples; default: train"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="the first N examples")
    parser.add_argument(
        "--image",
        metavar="IMAGE",
        help="what the tasks' boxes are made of; default: python:3.x-slim, as here",
    )
    parser.add_argument(
        "--with-stdlib",
        action="store_true",
        help="carry what scoring needs of the standard library, for an image with a minimal Python",
    )
    add_environment_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Write the tasks."""
    import asyncio

    from castform.cli.env_show import parse_arguments
    from castform.errors import UsageError
    from castform.plugins.environments import load_environment

    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit is at least 1")
    export = pkgutil.resolve_name("castform_harbor.export:export_environment")
    make_options = pkgutil.resolve_name("castform_harbor.export:ExportOptions")
    given = {
        "split": args.split,
        "limit": args.limit,
        "image": args.image,
        "standard_library": args.with_stdlib,
    }
    options = make_options(**{name: value for name, value in given.items() if value is not None})
    words = parse_arguments(args.arg)
    result = asyncio.run(export(load_environment(args.environment, words), words, args.folder, options))
    if args.json:
        print_json(
            {
                "folder": result.folder,
                "tasks": [task.name for task in result.tasks],
                "python": result.python,
                "without_solution": result.without_solution,
            }
        )
        return 0
    print_text(f"{len(result.tasks)} tasks in {result.folder}")
    if result.python is not None:
        print_note(
            f"their scorer runs on Python {result.python[0]}.{result.python[1]}, in an image that has it"
        )
    if result.without_solution:
        print_note(
            f"{result.without_solution} of them have no solution: the environment does not know the answer"
        )
    print_note(f"try them: castform harbor run {result.folder} --agent oracle")
    return 0
