"""`castform sft train`: finetune a model on a file of conversations and say whether it got better."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_fields, print_json, print_note, print_table, print_text
from castform.cli.trainer_calls import (
    EXIT_CODES,
    change_config,
    check_output,
    copy_result,
    reach_trainer,
    settle,
)
from castform.counted import counted
from castform.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from castform.sft.config import SftConfig

_TRAIN = "castform_trainer.sft.run:train_sft"
_RESUME = "castform_trainer.sft.run:resume_sft"
_PREPARE = "castform_trainer.sft.preflight:prepare"
_PLAN = "castform_trainer.sft.preflight:describe_plan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "train", nargs="?", type=Path, metavar="FILE", help="benchmax-sft-v1 file to train on (data.train)"
    )
    parser.add_argument(
        "--eval", type=Path, metavar="FILE", help="file with held-out rows, for the verdict (data.eval)"
    )
    parser.add_argument("-m", "--model", help="pulled name, folder or hub id (model.id)")
    parser.add_argument(
        "--adapter", type=Path, metavar="DIR", help="PEFT LoRA folder to start from (model.adapter)"
    )
    parser.add_argument(
        "--full", action="store_true", help='train all weights instead of LoRA (run.method = "full")'
    )
    parser.add_argument("--epochs", type=int, help="how often each row is trained on (run.epochs)")
    parser.add_argument("--steps", type=int, help="optimiser steps, in place of epochs (run.steps)")
    parser.add_argument("--lr", type=float, metavar="RATE", help="optimizer.learning_rate")
    parser.add_argument("--seed", type=int, help="seed of everything random (run.seed)")
    parser.add_argument("--max-seconds", type=float, help="train for at most this long (run.max_seconds)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        dest="assignments",
        help="one setting; wins over the file, and may be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, show the plan, train nothing"
    )
    parser.add_argument("--resume", metavar="RUN", help="continue a run from its last checkpoint")
    parser.add_argument(
        "--settings", action="store_true", help="list all settings with their defaults, and stop"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="also copy the adapter or model to this folder"
    )
    parser.add_argument("--json", action="store_true", help="the result as one JSON document on stdout")
    parser.add_argument("--launched", metavar="RUN", help=argparse.SUPPRESS)  # by castform.platform


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed."""
    if args.settings:
        return _list_settings(as_json=args.json)
    if args.output is not None:
        check_output(args.output)
    if args.resume is not None:
        return _resume(args)
    from castform.sft.config import load_sft_config

    config = load_sft_config(
        args.config,
        args.assignments,
        data__train=args.train,
        data__eval=args.eval,
        model__id=args.model,
        model__adapter=args.adapter,
        run__method="full" if args.full else None,
        run__epochs=args.epochs,
        run__steps=args.steps,
        run__seed=args.seed,
        run__max_seconds=args.max_seconds,
        optimizer__learning_rate=args.lr,
    )
    return _dry_run(config, as_json=args.json) if args.dry_run else _train(config, args)


def _list_settings(*, as_json: bool) -> int:
    from castform.config import list_settings
    from castform.sft.config import SftConfig

    settings = list_settings(SftConfig)
    if as_json:
        print_json(settings)
    else:
        print_table(
            ["SETTING", "DEFAULT", "WHAT IT IS"], [(s["name"], s["default"], s["summary"]) for s in settings]
        )
    return 0


def _train(config: SftConfig, args: argparse.Namespace) -> int:
    import asyncio
    from contextlib import ExitStack

    from castform.progress import show_progress
    from castform.runs import RunStore

    with RunStore.open() as store, ExitStack() as stack:
        launched = {}
        if args.launched:
            from castform.platform.job import hold_launched_run

            stack.enter_context(hold_launched_run(store, args.launched))
            launched = {"run_id": args.launched, "is_launched": True}
        train = reach_trainer(_TRAIN)
        listener = stack.enter_context(show_progress())
        result = settle(asyncio.run, train(config, store=store, listeners=[listener], **launched))
    return _finish(result, args)


def _resume(args: argparse.Namespace) -> int:
    import asyncio

    from castform.progress import show_progress
    from castform.runs import RunStore

    given = [
        name
        for name, value in (
            ("a file", args.train),
            ("--eval", args.eval),
            ("--model", args.model),
            ("--adapter", args.adapter),
            ("--full", args.full),
            ("--lr", args.lr),
            ("--seed", args.seed),
            ("--config", args.config),
            ("--set", args.assignments),
            ("--dry-run", args.dry_run),
        )
        if value not in (None, [], False)
    ]
    if given:
        raise UsageError(
            f"--resume goes on with the settings of the run, so it does not take {', '.join(given)}",
            hint="--epochs, --steps and --max-seconds may change; for other settings start a new run",
        )

    def change(config: SftConfig) -> SftConfig:
        changes = {"epochs": args.epochs, "steps": args.steps, "max_seconds": args.max_seconds}
        section = {**config.run.model_dump(), **{k: v for k, v in changes.items() if v is not None}}
        if args.epochs is not None and args.steps is None:
            section["steps"] = None  # steps would win
        changed: SftConfig = change_config(config, run=section)
        return changed

    resume = reach_trainer(_RESUME)
    with RunStore.open() as store, show_progress() as listener:
        result = settle(asyncio.run, resume(args.resume, store=store, listeners=[listener], change=change))
    return _finish(result, args)


def _dry_run(config: SftConfig, *, as_json: bool) -> int:
    plan: dict[str, Any] = reach_trainer(_PLAN)(reach_trainer(_PREPARE)(config))
    if as_json:
        print_json(plan)
        return 0
    train, held_out = plan["train"], plan["eval"]
    fields = {
        "data": f"{counted(train['rows'], 'row')}, {train['tokens']:,} tokens, {train['trained_tokens']:,} of them trained",
        **({} if train["sampled_rows"] is None else {"sampled ids": _count_sampled(train)}),
        "longest row": f"{train['longest']:,} of {plan['context_tokens']:,} tokens",
        "held out": "nothing: no verdict"
        if held_out is None
        else f"{counted(held_out['rows'], 'row')}, {held_out['answers']:,} of them answered before and after",
        "model": f"{plan['model']} in {plan['dtype']} on {plan['device']}",
        "training": "all weights" if plan["method"] == "full" else "LoRA",
        "learning rate": f"{plan['learning_rate']:g}",
        "steps": f"{plan['steps']:,} ({plan['steps_per_epoch']:,} an epoch)",
    }
    if plan["training_bytes"] is not None:
        fields["memory"] = f"{plan['training_bytes'] / 1e9:.1f} GB for weights, gradients and optimiser"
    print_fields(fields)
    print_note("nothing was started")
    return 0


def _count_sampled(train: Mapping[str, Any]) -> str:
    """Say how many rows are trained on the token ids that a run of ours sampled."""
    if train["sampled_rows"] == train["rows"]:
        return f"all {train['rows']:,} rows"
    rest = train["rows"] - train["sampled_rows"]
    return f"{train['sampled_rows']:,} of {train['rows']:,} rows; the other {rest:,} are not as they were converted"


def _finish(result: Any, args: argparse.Namespace) -> int:
    """Show an SftResult (`Any`: its class lives behind the train extra)."""
    from castform.sft.answers import describe_answers

    folder, verdict = result.result, result.verdict
    asked, answered = result.answers_before, result.answers_after
    if args.output is not None:
        copy_result(result.result, args.output, beside=result.run_dir / "canary.json")
        folder = args.output
    kind = "model" if result.method == "full" else "adapter"
    code = EXIT_CODES.get(result.stopped_by if result.status == "stopped" else None, 0)
    if args.json:
        print_json(
            {
                "run_id": result.run_id,
                "status": result.status,
                "stopped_by": result.stopped_by,
                "steps": result.steps,
                "rows": result.train["rows"],
                "sampled_rows": result.train["sampled_rows"],
                "trained_tokens": result.trained_tokens,
                "train_seconds": result.train_seconds,
                "run_dir": result.run_dir,
                "method": result.method,
                kind: folder,
                "before": None if result.before is None else result.before.as_dict(with_rows=False),
                "after": None if result.after is None else result.after.as_dict(with_rows=False),
                "answers": {
                    "before": None if asked is None else asked.as_dict(with_answers=False),
                    "after": None if answered is None else answered.as_dict(with_answers=False),
                },
                "verdict": None if verdict is None else verdict.as_dict(),
            }
        )
        return code
    if verdict is not None:
        print_text(verdict.describe())
        for found in verdict.components:
            print_text(describe_answers(found, loss=verdict.word))
            print_note(f"`castform runs answers {result.run_id}` shows them")
    elif result.before is None and result.status != "stopped":
        print_note("no held-out rows (--eval FILE), so no verdict")
    print_text(f"{kind}: {folder}")
    if result.train["sampled_rows"] is not None:
        print_note(f"trained on sampled token ids: {_count_sampled(result.train)}")
    if result.status == "stopped":
        print_note(
            f"stopped after {counted(result.steps, 'step')}; `castform sft train --resume {result.run_id}` goes on"
        )
    return code
