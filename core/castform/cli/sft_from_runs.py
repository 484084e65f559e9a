"""`castform sft convert --run RUN`: rows for finetuning from the rollouts of our own runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_fields, print_json, print_note, print_table, print_text
from castform.counted import counted
from castform.errors import RunFailedError, UsageError

if TYPE_CHECKING:
    from castform.sft.from_runs import Choice, Converted

OPTIONS = {
    "best_of": "--best-of",
    "per_example": "--per-example",
    "min_reward": "--min-reward",
    "reward": "--reward",
    "turns": "--turns",
    "without_failed_calls": "--mask-failed-calls",
    "with_cut": "--with-cut",
    "with_duplicates": "--with-duplicates",
    "split": "--split",
}
"""Field of a Choice to the option that sets it."""
MOST_SHOWN = 10


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare --run and what goes with it."""
    group = parser.add_argument_group("rows from runs of castform train and castform eval")
    group.add_argument(
        "--run",
        action="append",
        default=[],
        dest="runs",
        metavar="RUN",
        help="run id, or a unique beginning of one, in place of FILE; may be repeated",
    )
    group.add_argument(
        "--best-of", type=int, metavar="K", help="at most K rollouts of each group, the best ones"
    )
    group.add_argument(
        "--per-example",
        action="store_true",
        default=None,
        help="--best-of counts over all groups of an example",
    )
    group.add_argument(
        "--min-reward", type=float, metavar="X", help="only rollouts with a reward of at least X"
    )
    group.add_argument("--reward", metavar="NAME", help="choose by this reward component; default: the score")
    group.add_argument(
        "--turns", choices=("all", "last"), help="turns to train on, the others get weight 0; default: all"
    )
    group.add_argument(
        "--mask-failed-calls",
        action="store_true",
        default=None,
        help="turns whose tool call failed get weight 0",
    )
    group.add_argument(
        "--with-cut",
        action="store_true",
        default=None,
        help="also rollouts with a reply that hit its token limit",
    )
    group.add_argument(
        "--with-duplicates",
        action="store_true",
        default=None,
        help="also conversations that are there already",
    )
    group.add_argument(
        "--split", choices=("train", "eval"), help="default: train, or eval where a run has nothing else"
    )


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a Choice that were given."""
    named = {field: getattr(args, option[2:].replace("-", "_")) for field, option in OPTIONS.items()}
    return {field: value for field, value in named.items() if value is not None}


def check_no_run_options(args: argparse.Namespace) -> None:
    """Raise UsageError for options that mean nothing without --run."""
    given = [OPTIONS[field] for field in given_options(args)]
    if given:
        raise UsageError(
            f"{', '.join(given)}: options that choose rollouts of a run, and no run is given",
            hint="--run RUN names one",
        )


def convert_chosen(args: argparse.Namespace) -> int:
    """Convert the runs that were named and show what became of their rollouts."""
    from castform.runs import RunStore
    from castform.sft.from_runs import (
        Choice,
        check_paths,
        convert_runs,
        default_split,
        write_report,
        write_rows,
    )

    _refuse_file_options(args)
    check_paths(args.output, args.report)
    given = given_options(args)
    with RunStore.open() as store:
        given.setdefault("split", default_split(store, args.runs))
        try:
            choice = Choice(**given)
        except ValueError as error:
            raise UsageError(str(error)) from error
        converted = convert_runs(store, args.runs, choice)
    tokens = None
    if args.output is not None and converted.rows:
        tokens = write_rows(converted, args.output)
    if args.report is not None:
        write_report(converted.report, args.report)
    if args.json:
        print_json(
            {**converted.report.as_dict(), "split": choice.split, "output": args.output, "tokens": tokens}
        )
    else:
        _show(converted, choice, args.output, tokens)
    if not converted.rows:
        reasons = ", ".join(f"{reason} {n}" for reason, n in converted.report.counts.most_common())
        raise RunFailedError(f"no rollout became a row, so nothing was written ({reasons})")
    return 0


def _refuse_file_options(args: argparse.Namespace) -> None:
    others = {
        "FILE": args.file,
        "--from": args.source_format,
        "--drop": args.drop,
        "--allow-refused": args.allow_refused,
    }
    given = [name for name, value in others.items() if value]
    if given:
        raise UsageError(f"--run converts rollouts, so it does not take {', '.join(given)}")


def _show(converted: Converted, choice: Choice, output: Path | None, tokens: Path | None) -> None:
    report = converted.report
    counts = report.counts
    used = counts.pop("used", 0)
    print_fields(
        {
            "rollouts": f"{len(report.rollouts):,} = {used:,} used + {counts.total():,} left out",
            "rows": f"{report.rows:,}, {report.sampled_rows:,} of them with the token ids that were sampled",
            "turns": f"{report.trained_turns:,} to train on",
        }
    )
    for title, found in (
        ("ROLLOUTS LEFT OUT", counts),
        ("TURNS OF WEIGHT 0", report.masked_turns),
        ("REPLIES IN NO ROW", report.left_out_replies),
        ("WRITTEN OTHERWISE", report.changes),
    ):
        if found:
            print_text()
            print_table([title, "COUNT"], [(reason, f"{n:,}") for reason, n in found.most_common()])
    refused = [each for each in report.rollouts if each.detail and each.outcome.startswith("not sound")]
    if refused:
        print_text()
        for each in refused[:MOST_SHOWN]:
            print_text(f"{each.rollout_id}: {each.detail}")
        if refused[MOST_SHOWN:]:
            print_text(f"and {len(refused) - MOST_SHOWN} more; --json has all")
    if choice.split == "eval" and used:
        print_note(
            "note: these are held-out examples; a model that is trained on them cannot be judged by them"
        )
    if report.sampled_rows < report.rows:
        print_note(
            f"note: the calls of {report.rows - report.sampled_rows:,} rows have no token ids, "
            "so the trainer renders their text"
        )
    if report.rows and output is not None:
        print_note(
            f"wrote {counted(report.rows, 'row')} to {output}"
            + (f", their token ids to {tokens}" if tokens else "")
        )
    elif report.rows:
        print_note("nothing was written; --output FILE does")
