"""`castform train`: train a model in an environment and say whether it got better."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.model_choice import add_environment_arguments, add_workers_argument, apply_arguments
from castform.cli.output import print_json, print_note, print_table, print_text
from castform.cli.trainer_calls import (
    EXIT_CODES,
    change_config,
    check_output,
    copy_result,
    reach_trainer,
    settle,
)
from castform.errors import UsageError

if TYPE_CHECKING:
    from castform.config import RunConfig
    from castform.verdict import Comparison, Verdict

_TRAIN = "castform_trainer.rl.run:train"
_RESUME = "castform_trainer.rl.run:resume"
_PREPARE = "castform_trainer.rl.preflight:prepare"
_PLAN = "castform_trainer.rl.preflight:describe_plan"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "environment",
        nargs="?",
        help="an id, a Python file (./env.py, or ./env.py:Class), or a TOML file that composes one",
    )
    parser.add_argument("-m", "--model", help="pulled name, folder or hub id")
    parser.add_argument(
        "--adapter", type=Path, metavar="DIR", help="PEFT LoRA folder to start from (model.adapter)"
    )
    parser.add_argument("--steps", type=int, help="optimiser steps (run.steps)")
    parser.add_argument("--seed", type=int, help="seed of everything random (run.seed)")
    parser.add_argument("--max-seconds", type=float, help="train for at most this long (run.max_seconds)")
    add_workers_argument(parser)
    add_environment_arguments(parser)
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
    parser.add_argument("--output", type=Path, metavar="DIR", help="also copy the adapter to this folder")
    parser.add_argument("--json", action="store_true", help="the result as one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed."""
    if args.settings:
        return _list_settings(as_json=args.json)
    if args.output is not None:
        check_output(args.output)
    if args.resume is not None:
        return _resume(args)
    from castform.config import load_config

    config = load_config(
        args.config,
        args.assignments,
        environment__id=args.environment,
        environment__workers=args.workers,
        model__id=args.model,
        model__adapter=args.adapter,
        run__steps=args.steps,
        run__seed=args.seed,
        run__max_seconds=args.max_seconds,
    )
    config = apply_arguments(config, args.arg)
    return _dry_run(config, as_json=args.json) if args.dry_run else _train(config, args)


def _list_settings(*, as_json: bool) -> int:
    from castform.config import list_settings

    settings = list_settings()
    if as_json:
        print_json(settings)
    else:
        print_table(
            ["SETTING", "DEFAULT", "WHAT IT IS"], [(s["name"], s["default"], s["summary"]) for s in settings]
        )
    return 0


def _train(config: RunConfig, args: argparse.Namespace) -> int:
    import asyncio

    from castform.progress import show_progress
    from castform.runs import RunStore

    train = reach_trainer(_TRAIN)
    with RunStore.open() as store, show_progress() as listener:
        result = settle(asyncio.run, train(config, store=store, listeners=[listener]))
    return _finish(result, args)


def _resume(args: argparse.Namespace) -> int:
    import asyncio

    from castform.progress import show_progress
    from castform.runs import RunStore

    given = [
        name
        for name, value in (
            ("an environment", args.environment),
            ("--model", args.model),
            ("--adapter", args.adapter),
            ("--seed", args.seed),
            ("--config", args.config),
            ("--arg", args.arg),
            ("--set", args.assignments),
        )
        if value not in (None, [])
    ]
    if given:
        raise UsageError(
            f"--resume goes on with the settings of the run, so it does not take {', '.join(given)}",
            hint="--steps, --max-seconds and --workers may change; for other settings start a new run",
        )

    def change(config: RunConfig) -> RunConfig:
        changes = {"steps": args.steps, "max_seconds": args.max_seconds}
        section = config.run.model_copy(update={k: v for k, v in changes.items() if v is not None})
        place = {} if args.workers is None else {"workers": args.workers}
        environment = config.environment.model_copy(update=place)
        changed: RunConfig = change_config(
            config, run=section.model_dump(), environment=environment.model_dump()
        )
        return changed

    resume = reach_trainer(_RESUME)
    with RunStore.open() as store, show_progress() as listener:
        result = settle(asyncio.run, resume(args.resume, store=store, listeners=[listener], change=change))
    return _finish(result, args)


def _dry_run(config: RunConfig, *, as_json: bool) -> int:
    import asyncio

    plan = asyncio.run(_plan(config))
    if as_json:
        print_json(plan)
        return 0
    environment = plan["environment"]
    rows = [
        ("environment", f"{environment['id']} ({environment['distribution'] or 'a file'})"),
        ("examples", f"{plan['train_examples']} to train on, {plan['eval_examples']} held out"),
        ("model", f"{plan['model']} in {plan['dtype']} on {plan['device']}"),
        ("engine", plan["engine"]),
        ("steps", plan["steps"]),
        (
            "rollouts a step",
            f"{plan['rollouts_per_step']}, at most {plan['most_rollouts_per_step']} with refills",
        ),
        ("evaluation", f"{plan['eval_rollouts']} rollouts, before and after together"),
    ]
    print_table(["", "plan"], rows)
    print_note("nothing was started")
    return 0


async def _plan(config: RunConfig) -> dict[str, Any]:
    from castform.environments import close_environment

    prepared = await reach_trainer(_PREPARE)(config)
    try:
        plan: dict[str, Any] = reach_trainer(_PLAN)(prepared)
        return plan
    finally:
        await close_environment(prepared.environment.environment)


def _finish(result: Any, args: argparse.Namespace) -> int:
    """Show a TrainResult (`Any`: its class lives behind the train extra)."""
    adapter = result.adapter
    if args.output is not None:
        copy_result(result.adapter, args.output, beside=result.run_dir / "canary.json")
        adapter = args.output
    verdict: Verdict | None = result.verdict
    if args.json:
        print_json(
            {
                "run_id": result.run_id,
                "status": result.status,
                "stopped_by": result.stopped_by,
                "steps": result.steps,
                "train_seconds": result.train_seconds,
                "run_dir": result.run_dir,
                "adapter": adapter,
                "before": None if result.before is None else result.before.as_dict(with_examples=False),
                "after": None if result.after is None else result.after.as_dict(with_examples=False),
                "verdict": None if verdict is None else verdict.as_dict(),
            }
        )
        return EXIT_CODES.get(result.stopped_by if verdict is None else None, 0)
    if verdict is not None:
        print_table(
            ["component", "before", "after", "difference", "95 % interval", "verdict"],
            [_row(found) for found in (*verdict.components, verdict.score) if found is not None],
        )
        print_text()
        print_text(verdict.describe())
    print_text(f"adapter: {adapter}")
    if result.status == "stopped":
        print_note(f"stopped after {result.steps} steps; `castform train --resume {result.run_id}` goes on")
    return EXIT_CODES.get(result.stopped_by if verdict is None else None, 0)


def _row(found: Comparison) -> list[str]:
    return [
        found.name,
        f"{found.before:.3f}",
        f"{found.after:.3f}",
        f"{found.difference:+.3f}",
        f"{found.low:+.3f} to {found.high:+.3f}",
        found.word,
    ]
