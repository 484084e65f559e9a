"""`castform sandbox attack`: a hostile agent on task folders; what it is paid, and where it gets out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from castform.cli.output import print_json, print_note, print_text

if TYPE_CHECKING:
    from castform.testing.hostile.report import AttackResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("tasks", type=Path, help="a task's folder, a folder of them, or a registry.json")
    parser.add_argument("--sandbox", default="docker", metavar="NAME", help="default: docker")
    parser.add_argument(
        "--verifier",
        choices=("fresh", "task"),
        default="fresh",
        help="fresh: verified in a new box with the declared artifacts alone; task: as the task says",
    )
    parser.add_argument(
        "--artifact", action="append", default=[], metavar="PATH", help="one more path that the tests see"
    )
    parser.add_argument("--only", action="append", metavar="ATTACK", help="play this one; may be given again")
    parser.add_argument("--concurrency", type=int, default=4, metavar="N", help="boxes at a time; default: 4")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Play them. 1: one was paid, got out or was not played."""
    import asyncio

    from castform.cli.signals import interrupt_on_sigterm
    from castform.cli.trainer_calls import settle
    from castform.errors import UsageError
    from castform.testing.hostile import attack_tasks
    from castform.testing.hostile.report import VERDICTS

    if args.concurrency < 1:
        raise UsageError("--concurrency is at least 1")
    with interrupt_on_sigterm() as interrupt:
        report = settle(
            asyncio.run,
            interrupt.hold(
                attack_tasks(
                    args.tasks,
                    sandbox=args.sandbox,
                    attacks=args.only,
                    verifier=args.verifier,
                    artifacts=args.artifact,
                    concurrency=args.concurrency,
                    show=_note,
                )
            ),
        )
    if args.json:
        print_json(
            {
                "sandbox": args.sandbox,
                "verifier": args.verifier,
                "attacks": [result.as_dict() for result in report.results],
                **{verdict.replace(" ", "_"): report.count(verdict) for verdict in VERDICTS},
            }
        )
    else:
        head, _, table = report.describe().partition("\n")
        print_text(table)
        print_note(head)
    return 1 if report.succeeded or report.unplayed else 0


def _note(result: AttackResult) -> None:
    print_note(f"{result.task}: {result.attack.name}: {result.verdict}")
