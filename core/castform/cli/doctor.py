"""`castform doctor`: whether this installation is sound."""

from __future__ import annotations

import argparse

from castform.cli.output import print_json, print_note, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def run(args: argparse.Namespace) -> int:
    """Print every finding; exit 3 when castform cannot work here. A missing extra is no fault."""
    from castform.diagnosis import diagnose

    findings = diagnose()
    if args.json:
        print_json(
            {
                "ok": not any(f.level == "error" for f in findings),
                "findings": [
                    {"check": f.check, "level": f.level, "found": f.found, "hint": f.hint} for f in findings
                ],
            }
        )
    else:
        print_table(["CHECK", "RESULT", "FOUND"], [[f.check, f.level, f.found] for f in findings])
        print_note("whether boxes for agents can be started here: `castform sandbox list`")
    for finding in findings:
        if finding.hint and finding.level != "ok":
            print_note(f"{finding.check}: {finding.hint}")
    return 3 if any(f.level == "error" for f in findings) else 0
