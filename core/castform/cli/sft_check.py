"""`castform sft check`: whether a file of conversations can be trained on, and what is in it."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_json
from castform.cli.trainer_calls import reach_trainer
from castform.errors import MissingError, UsageError

if TYPE_CHECKING:
    from castform.sft.checking.report import FileReport, Measure, Unchecked

_MEASURE = "castform_trainer.sft.report:measure_files"

EXIT_REFUSED = 1
"""Training would refuse these files, or this model with them."""
EXIT_OPEN = 3
"""Nothing is wrong as far as could be seen, but not everything was looked at: the model is missing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("train", type=Path, metavar="FILE", help="benchmax-sft-v1 file to train on")
    parser.add_argument("--eval", type=Path, metavar="FILE", help="file with held-out rows")
    parser.add_argument(
        "-m", "--model", help="pulled name, folder or hub id; without one nothing is said about tokens"
    )
    parser.add_argument("--row", type=int, metavar="N", help="row of FILE to preview, from 0 (default: 0)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML file with the settings of the run to come"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="assignments",
        help="one setting of the run to come, data.max_context_tokens=2048 for one; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="everything as one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed. 0: training would start. 1: it would not. 3: not known."""
    from castform.sft.checking.report import make_report, read_file
    from castform.sft.config import load_sft_config

    config = load_sft_config(
        args.config, args.assignments, data__train=args.train, data__eval=args.eval, model__id=args.model
    )
    train = read_file(args.train)
    held_out = None if config.data.eval is None else read_file(args.eval or config.data.eval)
    row = _choose_row(args, train, has_model=bool(config.model.id))
    measure, unchecked = _find_measure(config, row)
    report = make_report(train, held_out, measure=measure, unchecked=unchecked)
    if args.json:
        print_json(report.as_dict())
    else:
        from castform.cli.sft_check_text import print_report

        print_report(report)
    if report.faults:
        return EXIT_REFUSED
    return EXIT_OPEN if report.unchecked else 0


def _choose_row(args: argparse.Namespace, train: FileReport, *, has_model: bool) -> int:
    if args.row is None:
        return 0
    if not has_model:
        raise UsageError("--row shows a row as a model reads it, and no model was given", hint="add -m MODEL")
    row = int(args.row)
    if train.dataset is not None and not 0 <= row < len(train.dataset):
        last = len(train.dataset) - 1
        raise UsageError(
            f"there is no row {row}; {args.train} has rows 0 to {last}",
            hint="rows count from 0, blank lines aside",
        )
    return row


def _find_measure(config: Any, row: int) -> tuple[Measure | None, list[Unchecked]]:
    """Return what measures with the model (`config` is an SftConfig), or what is left open without it."""
    from castform.sft.checking.report import Unchecked

    what = "tokens, context, masks"
    if not config.model.id:
        why = "no model given: its tokenizer and chat template decide how long a row is and what is trained"
        return None, [Unchecked(what=what, why=why, hint="add -m MODEL")]
    try:
        measure = reach_trainer(_MEASURE)
    except MissingError as error:
        why = str(error.args[0]).replace("training needs", "they need the train extra:")
        return None, [Unchecked(what=what, why=why, hint=error.hint or "pip install 'castform[train]'")]
    return partial(measure, config, preview_row=row), []
