"""`castform harbor compare`: the same tasks by castform's runner and by the real harbor."""

from __future__ import annotations

import argparse
import pkgutil
from typing import Any

from castform.cli.harbor_arguments import add_task_arguments, add_trial_arguments, check_concurrency
from castform.cli.output import print_json, print_note, print_table, print_text

AGENTS = ("oracle", "nop")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    add_task_arguments(parser)
    parser.add_argument(
        "--task",
        action="append",
        metavar="PATTERN",
        help="only tasks whose folder's name matches; may be given again; default: all",
    )
    parser.add_argument(
        "--agent",
        action="append",
        choices=AGENTS,
        help="oracle or nop; may be given again; default: both",
    )
    add_trial_arguments(parser, concurrency=2)
    parser.add_argument(
        "--compose",
        action="store_true",
        help="let the real harbor use its own docker environment, which needs the Compose plugin",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Compare. 0: every task has the same rewards by both; 1: some do not."""
    import asyncio

    from castform.cli.signals import interrupt_on_sigterm
    from castform.cli.trainer_calls import settle

    check_concurrency(args)
    compare = pkgutil.resolve_name("castform_harbor.compare:compare_runners")
    find = pkgutil.resolve_name("castform_harbor.real_harbor:find_real_harbor")
    harbor = find()
    with interrupt_on_sigterm() as interrupt:
        rows = settle(
            asyncio.run,
            interrupt.hold(
                compare(
                    args.tasks,
                    dataset=args.dataset,
                    agents=args.agent or AGENTS,
                    sandbox=args.sandbox,
                    jobs_dir=args.jobs_dir.absolute(),
                    concurrency=args.concurrency,
                    compose=args.compose,
                    patterns=args.task or (),
                    harbor=harbor,
                    on_progress=print_note,
                )
            ),
        )
    different = [row for row in rows if not row.is_same]
    if args.json:
        print_json({"trials": [row.as_dict() for row in rows], "different": len(different)})
    else:
        print_table(
            ["TASK", "AGENT", "CASTFORM", "HARBOR", ""],
            [
                [row.task, row.agent, _show(row.own), _show(row.real), "" if row.is_same else row.verdict]
                for row in rows
            ],
        )
        for row in different:
            print_text(f"{row.task}, {row.agent}: {row.describe()}")
        print_text(f"{len(rows) - len(different)} of {len(rows)} trials have the same rewards")
    return 1 if different else 0


def _show(rewards: Any) -> str:
    return "none" if rewards is None else ", ".join(f"{name} {value:g}" for name, value in rewards.items())
