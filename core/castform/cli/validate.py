"""`castform validate`: say whether an environment can be trained on with a model, and why not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from castform.cli.model_choice import (
    add_model_arguments,
    add_workers_argument,
    check_model_arguments,
    open_model,
    read_config,
)
from castform.cli.output import print_json, print_note, print_table, print_text

if TYPE_CHECKING:
    from castform.config import RunConfig
    from castform.plugins import LoadedEnvironment
    from castform.probes import ProbeOutcome, ProbeReport
    from castform.validation import ValidationReport

DEFAULT_EXAMPLES = 16
DEFAULT_SAMPLES = 4
EXIT_NOT_TRAINABLE = 1
STUCK_SECONDS = 60.0
"""Without a model, environment code that holds the event loop for so long never comes back."""
MARKS = {"fault": "FAULT", "warning": "warning", "note": "note", "unchecked": "not checked"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "environment",
        help="an id, a Python file (./env.py, or ./env.py:Class), or a TOML file that composes one",
    )
    parser.add_argument(
        "--samples", type=_positive, default=DEFAULT_SAMPLES, metavar="K", help="rollouts per example (4)"
    )
    parser.add_argument(
        "--examples", type=_positive, default=DEFAULT_EXAMPLES, metavar="N", help="most examples (16)"
    )
    parser.add_argument("--split", choices=("train", "eval"), default="train", help="default: train")
    add_workers_argument(parser)
    add_model_arguments(parser, required=False)


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed; 1 when the environment cannot be trained on."""
    import asyncio

    from castform.cli.measured_run import settle
    from castform.environments import load_configured

    check_model_arguments(args)
    config = read_config(
        args,
        sampling__temperature=args.temperature,
        environment__workers=args.workers,
        eval__examples=args.examples,  # stored with the run: what it looked at
        eval__samples=args.samples,
    )
    loaded = load_configured(config.environment)
    run_id, report = settle(asyncio.run, _validate(args, config, loaded))
    if args.json:
        print_json({"run_id": run_id, "environment": loaded.pin.as_dict(), **report.as_dict()})
    else:
        print_report(report)
        print_text(f"{loaded.id}: {report.describe()}")
    return EXIT_NOT_TRAINABLE if report.trainable is False else 0


async def _validate(
    args: argparse.Namespace, config: RunConfig, loaded: LoadedEnvironment
) -> tuple[str | None, ValidationReport]:
    from castform.calls import Sampling
    from castform.cli.eval import note_unknown_weights, scalars_of
    from castform.cli.measured_run import MeasuredRun, base_folder
    from castform.environments import check_ready, close_environment, load_examples
    from castform.stuck import end_when_stuck
    from castform.validate import ValidateOptions, validate

    environment = loaded.environment
    options = ValidateOptions(
        split=args.split,
        samples=args.samples,
        sampling=Sampling(
            max_new_tokens=config.sampling.max_new_tokens, temperature=config.sampling.temperature
        ),
        weights=config.environment.weights,
        seed=config.run.seed,
        concurrency=config.rl.max_concurrent_rollouts,
        max_context_tokens=config.sampling.max_context_tokens,
        timeout_seconds=config.rl.rollout_timeout_seconds,
    )
    try:
        examples = await load_examples(
            environment, args.split, base_folder(config, loaded), limit=args.examples
        )
        loaded = loaded.with_examples(**{args.split: examples})
        await check_ready(environment)
        if args.model is None:
            with end_when_stuck(min(options.timeout_seconds, STUCK_SECONDS)):
                return None, await validate(environment, examples, options=options, on_stage=_say)
        async with MeasuredRun(
            kind="validate", config=config, loaded=loaded, logs_calls=bool(args.base_url)
        ).open(lambda log_path: open_model(args, config, log_path=log_path), total=len(examples)) as (
            measured,
            (endpoint, version),
        ):
            with end_when_stuck(options.timeout_seconds):
                report = await validate(
                    environment,
                    examples,
                    endpoint=endpoint,
                    version=version,
                    options=options,
                    on_stage=_say,
                    on_group=measured.on_group,
                    record=measured.record,
                )
            measured.store_result(
                "validate", report.as_dict(), {} if report.result is None else scalars_of(report.result)
            )
    finally:
        await close_environment(environment)
    if report.result is not None:
        note_unknown_weights(config, report.result)
    return measured.run_id, report


def print_report(report: ValidationReport) -> None:
    """Write what was measured as tables, then every finding in words."""
    from castform.cli.eval import describe_size, print_result

    if report.probes is not None:
        print_probes(report.probes)
    if report.result is not None:
        print_text(describe_size(report.result))
        print_result(report.result)
        if report.max_context_tokens is not None:
            print_text(f"context budget  {report.max_context_tokens} tokens")
        print_text()
    if report.replay is not None:
        print_text(
            f"scored again: {report.replay.rollouts} transcripts, "
            f"{len({d.rollout_id for d in report.replay.differences})} differ"
        )
        print_text()
    for finding in report.findings:
        print_text(f"{MARKS[finding.level]}: {finding.message}")
    if report.findings:
        print_text()


def print_probes(probes: ProbeReport) -> None:
    """Write what each probe earned as a table."""
    outcomes = [*([probes.gold] if probes.gold else []), *probes.outcomes]
    print_table(
        ["ANSWER", "SCORE", "OF THE RIGHT ONE", "PAID IN FULL", "COMPONENTS", "NOT SCORED"],
        [_probe_row(outcome) for outcome in outcomes],
    )
    print_text(f"form of the right answer: {probes.rendering}" if probes.gold else "no right answers given")
    print_text()


def _probe_row(outcome: ProbeOutcome) -> list[str]:
    return [
        outcome.what,
        "-" if outcome.mean_score is None else f"{outcome.mean_score:.3f}",
        "-" if outcome.share_of_gold is None else f"{outcome.share_of_gold:.0%}",
        f"{len(outcome.paid_in_full)} of {outcome.scored}",
        ", ".join(f"{name} {value:.3g}" for name, value in outcome.components.items()),
        ", ".join(f"{reason} {n}" for reason, n in outcome.failures.items()),
    ]


def _say(stage: str) -> None:
    print_note(f"checking: {stage}")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value
