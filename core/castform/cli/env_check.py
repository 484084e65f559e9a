"""`castform env check`: hold a plugin's source to what its users will need, before anybody installs it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from castform.cli.output import print_json, print_note, print_table, print_text
from castform.errors import MissingError

if TYPE_CHECKING:
    from castform.authoring.report import CheckReport, CheckRow

EXIT_FAILED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder with the plugin's pyproject.toml")
    parser.add_argument(
        "--certify",
        action="store_true",
        help="certify its environments too, and write the certificates into the package",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the virtual environment and say where it is"
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Check, print one row a check. 1: one failed; 3: none did, and something that an environment needs is missing."""
    from castform.authoring.check import CheckOptions, check_plugin

    report = check_plugin(
        args.folder,
        CheckOptions(certify=args.certify, keep=args.keep),
        on_stage=lambda stage: print_note(f"checking: {stage}"),
    )
    if args.json:
        print_json(report.as_dict())
    else:
        _print_report(report)
    if not report.passed:
        return EXIT_FAILED
    return MissingError.exit_code if report.missing else 0


def _print_report(report: CheckReport) -> None:
    print_table(["CHECK", "RESULT", "FOUND"], [[row.check, row.status, row.found] for row in report.rows])
    for row in report.rows:
        if row.status != "pass" and (row.hint or row.details):
            _print_details(row)
    print_text()
    counts = [f"{report.count('pass')} passed", f"{report.count('fail')} failed"]
    if report.count("unchecked"):
        counts.append(f"{report.count('unchecked')} unchecked")
    print_text(f"{report.distribution}: {', '.join(counts)} in {report.seconds:.0f} s")
    if report.venv is not None:
        print_note(f"the virtual environment is {report.venv}")


def _print_details(row: CheckRow) -> None:
    print_text()
    print_text(f"{row.check}: {row.hint or row.found}")
    for line in row.details:
        print_text(f"    {line}")
