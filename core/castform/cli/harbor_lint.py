"""`castform harbor lint`: what is wrong or odd about task folders, without a sandbox."""

from __future__ import annotations

import argparse
import pkgutil
from typing import Any

from castform.cli.harbor_arguments import add_task_arguments
from castform.cli.output import print_json, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    add_task_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed. 0: every task can be used; 2: some cannot."""
    load: Any = pkgutil.resolve_name("castform_harbor.tasks:load_usable_tasks")  # core may not import it
    find_gaps: Any = pkgutil.resolve_name("castform_harbor.support:find_gaps")
    tasks, faults = load(args.tasks, dataset=args.dataset)
    if args.json:
        print_json(
            {
                "tasks": [
                    {
                        "name": task.name,
                        "folder": str(task.folder),
                        "digest": task.digest,
                        "steps": [step.name for step in task.steps],
                        "warnings": list(task.warnings),
                        "notes": find_gaps(task),
                    }
                    for task in tasks
                ],
                "unusable": faults,
            }
        )
        return 2 if faults else 0
    for task in tasks:
        for warning in task.warnings:
            print_text(f"{task.folder.name}: {warning}")
        for note in find_gaps(task):
            print_text(f"{task.folder.name}: note: {note}")
    for fault in faults.values():
        print_text(f"not usable: {fault}")
    warnings = sum(bool(task.warnings) for task in tasks)
    noun = "task" if len(tasks) == 1 else "tasks"
    print_text(f"{len(tasks)} {noun} can be used, {warnings} of them with warnings; {len(faults)} cannot")
    return 2 if faults else 0
