"""`castform env new`: a plugin distribution from a template."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from castform.authoring.new import TEMPLATES, NewPlugin, write_plugin
from castform.cli.output import print_json, print_note, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("name", help="the plugin's name: lower-case letters, digits and '-'")
    parser.add_argument(
        "--template",
        choices=tuple(TEMPLATES),
        default="single",
        help="single: a question and a reply (default); tools: functions that the model calls; "
        "judge: a rubric that a model scores by; harness: an agent program in a process of its own",
    )
    parser.add_argument(
        "--dir", type=Path, default=Path(), metavar="D", help="folder to write it in (default: this one)"
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Write the folder and say what to do next."""
    from castform.plugins.catalog import list_installed

    new = write_plugin(
        args.name,
        template=args.template,
        directory=args.dir,
        installed=[entry.name for entry in list_installed()],
    )
    if args.json:
        print_json(
            {
                "plugin": new.names.plugin,
                "distribution": new.names.distribution,
                "package": new.names.package,
                "template": new.template,
                "folder": str(new.folder),
                "files": list(new.files),
            }
        )
    else:
        for file in new.files:
            print_text(str(new.folder / file))
    _show_next_steps(new)
    return 0


def _show_next_steps(new: NewPlugin) -> None:
    folder = shlex.quote(str(new.folder))
    path = folder if folder.startswith(("/", "'")) else f"./{folder}"
    steps = {
        f"castform env check {folder}": "build it, install it elsewhere, hold it to the rules",
        f"pip install -e {path}": "install it here; what you edit is in force at once",
        f"castform env certify {new.names.plugin}": "can its reward be gamed?",
    }
    width = max(map(len, steps))
    print_note(f"\nwrote {new.folder}; next:")
    for step, why in steps.items():
        print_note(f"  {step:<{width}}  # {why}")
