"""`castform sft convert`: rows of other formats to benchmax-sft-v1, with a word on every row."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from castform.cli.output import print_fields, print_json, print_note, print_table, print_text
from castform.counted import counted
from castform.errors import UsageError

if TYPE_CHECKING:
    from castform.sft.convert.files import Conversion


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    from castform.cli.sft_from_runs import add_run_arguments
    from castform.sft.convert.formats import FORMATS

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "formats:\n" + "\n".join(
        f"  {name:<18} {kind.summary.replace('`', '')}" for name, kind in FORMATS.items()
    )
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="JSON lines or one JSON array, also gzip, bzip2 or xz",
    )
    parser.add_argument(
        "--from", dest="source_format", choices=list(FORMATS), metavar="FORMAT", help="default: detected"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="where to write; without it nothing is written"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="a JSON line on every row or rollout")
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="leave out a column, or COLUMN.KEY in all its messages, not kept as metadata; may be repeated",
    )
    parser.add_argument(
        "--allow-refused", action="store_true", help="exit 0 although rows were refused, when others were not"
    )
    parser.add_argument("--json", action="store_true", help="the counts as one JSON document on stdout")
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed."""
    from castform.cli.signals import interrupt_on_sigterm

    with interrupt_on_sigterm():
        return _convert(args)


def _convert(args: argparse.Namespace) -> int:
    from castform.cli.sft_from_runs import check_no_run_options, convert_chosen
    from castform.sft.convert.files import convert_file

    if args.runs:
        return convert_chosen(args)
    check_no_run_options(args)
    if args.file is None:
        raise UsageError(
            "no file given", hint="`castform sft convert FILE`, or --run RUN for a run's rollouts"
        )

    done = convert_file(
        args.file, name=args.source_format, output=args.output, report=args.report, drop=args.drop
    )
    if args.json:
        print_json(done.as_dict())
    else:
        _show(done, asked_for_output=args.output is not None)
    tally = done.tally
    for column in sorted({*args.drop} - tally.dropped):
        print_note(f"no row that was written has {column}, so --drop {column} did nothing")
    if not tally.refused:
        return 0
    if tally.written and not args.allow_refused:
        print_note(
            f"{counted(tally.refused, 'row')} refused, so this ends with exit code 1; --allow-refused makes it 0"
        )
    return 0 if tally.written and args.allow_refused else 1


def _show(done: Conversion, *, asked_for_output: bool) -> None:
    from benchmax.sft import CODES
    from castform.sft.convert.notes import NOTES, REFUSALS

    tally = done.tally
    print_fields(
        {
            "format": f"{done.format} ({done.reason})" if done.reason else done.format,
            "read as": "; ".join([done.written_as, *(note.message for note in done.file_notes)]),
            "rows": f"{tally.rows:,} = {tally.written:,} converted + {tally.refused:,} refused",
            "unchanged": f"{tally.same:,} had the format already",
        }
    )
    for title, groups, texts in (
        ("REFUSED", tally.as_dict()["refusals"], {**CODES, **REFUSALS}),
        ("NOTE", tally.as_dict()["notes"], NOTES),
    ):
        if groups:
            print_text()
            print_table(
                [title, "ROWS", "FIRST", "WHAT IT SAYS"],
                [
                    (group["code"], group["rows"], _place(group["examples"][0]), texts[group["code"]])
                    for group in groups
                ],
            )
    if tally.refused:
        print_text()
        for group in tally.as_dict()["refusals"]:
            for example in group["examples"]:
                where = f"{_place(example)}, row {example['row']}, {example['location']}"
                print_text(f"{where}: {example['message']}")
    if done.output is not None:
        print_note(f"wrote {counted(tally.written, 'row')} to {done.output}")
    elif asked_for_output:
        print_note("no row could be converted, so nothing was written")
    else:
        print_note("nothing was written; --output FILE does")
    if done.report is not None:
        print_note(f"the report on each row is in {done.report}")


def _place(example: dict[str, object]) -> str:
    return f"row {example['row']}" if example["line"] is None else f"line {example['line']}"
