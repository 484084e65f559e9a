"""`castform harbor install`: the real harbor, in a virtual environment of its own."""

from __future__ import annotations

import argparse
import pkgutil
from pathlib import Path

from castform.cli.output import print_json, print_note, print_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where it goes; default: harbor-venv below CASTFORM_HOME"
    )
    parser.add_argument("--python", type=Path, metavar="FILE", help="a Python of 3.12 or newer")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Make it, unless it is there."""
    import asyncio

    print_note("harbor and what it needs are about 470 MB; this takes a few minutes")
    make = pkgutil.resolve_name("castform_harbor.real_harbor:make_real_harbor")
    read_version = pkgutil.resolve_name("castform_harbor.real_harbor:read_version")
    harbor = make(args.folder, python=args.python)
    version = asyncio.run(read_version(harbor))
    if args.json:
        print_json({"command": harbor.command, "version": version})
    else:
        print_text(f"harbor {version}: {harbor.command}")
        if args.folder is not None:
            print_note(f"castform finds it by CASTFORM_HARBOR={args.folder}")
    return 0
