"""`castform train`: train a model in an environment and say whether it got better."""

from __future__ import annotations

import argparse
import os
import pkgutil
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.model_choice import add_environment_arguments, apply_arguments
from castform.cli.output import print_json, print_note, print_table, print_text
from castform.errors import MissingError, RunFailedError, UsageError

if TYPE_CHECKING:
    from castform.config import RunConfig
    from castform.verdict import Comparison, Verdict

_TRAIN = "castform_trainer.rl.run:train"
_RESUME = "castform_trainer.rl.run:resume"
_PREPARE = "castform_trainer.rl.preflight:prepare"
_PLAN = "castform_trainer.rl.preflight:describe_plan"
_EXIT_CODES: dict[str | None, int] = {"signal": 130, "requested": 1}
"""Of a run that was stopped before its verdict: what comes after it in a script must not go on."""


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
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes for the environment; 0: none (environment.workers)",
    )
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
        _check_output(args.output)
    if args.resume:
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


def _check_output(folder: Path) -> None:
    """Raise UsageError unless a new folder can be made there: now, and not after hours of training."""
    if folder.exists():
        raise UsageError(f"{folder} exists already", hint="choose a folder that does not exist")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be made: {above} is not a folder that you can write")


def _copy_adapter(run_dir: Path, adapter: Path, output: Path) -> None:
    """Copy the adapter and its canary, whole or not at all. RunFailedError when the disk refuses."""
    partial = output.with_name(f".{output.name}.partial")
    try:
        shutil.copytree(adapter, partial)
        shutil.copy(run_dir / "canary.json", partial / "canary.json")
        partial.rename(output)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise RunFailedError(
            f"cannot copy the adapter to {output}: {error.strerror or error}",
            hint=f"the run itself is whole, and so is its adapter: {adapter}",
        ) from error


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

    train = _reach(_TRAIN)
    with RunStore.open() as store, show_progress() as listener:
        result = _settle(asyncio.run, train(config, store=store, listeners=[listener]))
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
        return type(config).model_validate(
            {**config.model_dump(), "run": section.model_dump(), "environment": environment.model_dump()}
        )

    resume = _reach(_RESUME)
    with RunStore.open() as store, show_progress() as listener:
        result = _settle(asyncio.run, resume(args.resume, store=store, listeners=[listener], change=change))
    return _finish(result, args)


def _dry_run(config: RunConfig, *, as_json: bool) -> int:
    import asyncio

    prepared = asyncio.run(_reach(_PREPARE)(config))
    plan: dict[str, Any] = _reach(_PLAN)(prepared)
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


def _finish(result: Any, args: argparse.Namespace) -> int:
    """Show a TrainResult (`Any`: its class lives behind the train extra)."""
    adapter = result.adapter
    if args.output is not None:
        _copy_adapter(result.run_dir, result.adapter, args.output)
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
        return _EXIT_CODES.get(result.stopped_by if verdict is None else None, 0)
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
    return _EXIT_CODES.get(result.stopped_by if verdict is None else None, 0)


def _row(found: Comparison) -> list[str]:
    return [
        found.name,
        f"{found.before:.3f}",
        f"{found.after:.3f}",
        f"{found.difference:+.3f}",
        f"{found.low:+.3f} to {found.high:+.3f}",
        found.word,
    ]


def _settle(runner: Any, work: Any) -> Any:
    """Run the coroutine; a second Ctrl-C cancels it, which is an interrupt for the command line."""
    import asyncio

    try:
        return runner(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _reach(reference: str) -> Any:
    """Return something of the trainer. MissingError when its extra is not installed."""
    try:
        return pkgutil.resolve_name(reference)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("torch", "transformers", "peft", "castform_trainer"):
            raise MissingError(
                f"training needs {error.name}, which is not installed", hint="pip install 'castform[train]'"
            ) from error
        raise
