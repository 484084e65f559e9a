"""`castform eval`: score a model on examples of an environment."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from castform.cli.model_choice import (
    add_model_arguments,
    add_workers_argument,
    check_model_arguments,
    open_model,
    read_config,
)
from castform.cli.output import print_json, print_note, print_table, print_text
from castform.errors import RunFailedError

if TYPE_CHECKING:
    from castform.config import RunConfig
    from castform.eval_result import EvalResult, Mean
    from castform.plugins import LoadedEnvironment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "environment",
        help="an id, a Python file (./env.py, or ./env.py:Class), or a TOML file that composes one",
    )
    parser.add_argument("--samples", type=int, metavar="K", help="rollouts per example (eval.samples)")
    parser.add_argument("--examples", type=int, metavar="N", help="most examples (eval.examples)")
    parser.add_argument("--split", choices=("train", "eval"), default="eval", help="default: eval")
    parser.add_argument(
        "--pass-at",
        type=float,
        metavar="SCORE",
        help="score that counts as a pass; default: the right answer's",
    )
    add_workers_argument(parser)
    add_model_arguments(parser, required=True)


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed."""
    import asyncio

    from castform.cli.measured_run import settle
    from castform.environments import load_configured

    check_model_arguments(args)
    config = load_eval_config(args)
    loaded = load_configured(config.environment)
    run_id, loaded, result = settle(asyncio.run, _evaluate(args, config, loaded))
    if args.json:
        print_json(
            {
                "run_id": run_id,
                "environment": loaded.pin.as_dict(),
                "model": args.model,
                "adapter": None if args.adapter is None else str(args.adapter),
                **result.as_dict(),
            }
        )
    else:
        print_text(f"{loaded.id} with {args.model}: {describe_size(result)}, run {run_id}")
        print_result(result)
    return 0


def load_eval_config(args: argparse.Namespace) -> RunConfig:
    """Read the settings. Several samples without a temperature are drawn as in training, not greedily."""
    config = read_config(
        args,
        eval__samples=args.samples,
        eval__examples=args.examples,
        eval__temperature=args.temperature,
        environment__workers=args.workers,
    )
    if config.eval.samples > 1 and config.eval.temperature == 0 and args.temperature is None:
        changed = config.eval.model_copy(update={"temperature": config.sampling.temperature})
        config = config.model_copy(update={"eval": changed})
    return config


async def _evaluate(
    args: argparse.Namespace, config: RunConfig, loaded: LoadedEnvironment
) -> tuple[str, LoadedEnvironment, EvalResult]:
    from castform.calls import Sampling
    from castform.cli.measured_run import MeasuredRun, base_folder
    from castform.environments import check_ready, close_environment, load_examples
    from castform.eval_result import DEFAULT_PASS_AT
    from castform.evaluate import evaluate
    from castform.probing import measure_full_score

    environment = loaded.environment
    try:
        examples = await load_examples(
            environment, args.split, base_folder(config, loaded), limit=config.eval.examples
        )
        loaded = loaded.with_examples(**{args.split: examples})
        await check_ready(environment)
        pass_at = args.pass_at
        if pass_at is None:
            pass_at = await measure_full_score(
                environment, examples[:2], split=args.split, weights=config.environment.weights
            )
        async with MeasuredRun(
            kind="eval", config=config, loaded=loaded, logs_calls=bool(args.base_url)
        ).open(lambda log_path: open_model(args, config, log_path=log_path), total=len(examples)) as (
            measured,
            (endpoint, version),
        ):
            result = await evaluate(
                environment,
                examples,
                endpoint=endpoint,
                samples=config.eval.samples,
                sampling=Sampling(
                    max_new_tokens=config.sampling.max_new_tokens, temperature=config.eval.temperature
                ),
                seed=config.run.seed,
                split=args.split,
                weights=config.environment.weights,
                concurrency=config.rl.max_concurrent_rollouts,
                max_context_tokens=config.sampling.max_context_tokens,
                version=version,
                timeout_seconds=config.rl.rollout_timeout_seconds,
                pass_at=DEFAULT_PASS_AT if pass_at is None else pass_at,
                on_group=measured.on_group,
                record=measured.record,
            )
            measured.store_result("eval", result.as_dict(), scalars_of(result))
            check_some_scored(result, remote=bool(args.base_url))
    finally:
        await close_environment(environment)
    note_unknown_weights(config, result)
    return measured.run_id, loaded, result


def check_some_scored(result: EvalResult, *, remote: bool) -> None:
    """Raise RunFailedError when no rollout has a score: there is no result to show."""
    if result.score() is None:
        error = next((rollout.error for rollout in result.rollouts if rollout.error), "no error text")
        reasons = ", ".join(f"{reason} {n}" for reason, n in result.failures.items())
        raise RunFailedError(
            f"none of {len(result.rollouts)} rollouts was scored ({reasons}): {error}",
            hint="check --base-url, the model's name (-m) and the key (--api-key-env)"
            if remote and set(result.failures) == {"model_error"}
            else "`castform validate` looks for the cause",
        )


def note_unknown_weights(config: RunConfig, result: EvalResult) -> None:
    """Say which weights name no reward component: most likely they are misspelt."""
    unknown = sorted(set(config.environment.weights) - set(result.components))
    if unknown and result.components:
        print_note(
            f"note: no reward component is called {', '.join(unknown)}; there are {', '.join(result.components)}"
        )


def scalars_of(result: EvalResult) -> dict[str, float | None]:
    """Return the figures of a result that are worth a curve."""
    score = result.score()
    values: dict[str, float | None] = {"score": None if score is None else score.mean}
    for name in result.components:
        mean = result.component(name)
        values[f"component/{name}"] = None if mean is None else mean.mean
    values["pass@1"] = result.pass_at_k(1)
    values["failed"] = float(sum(result.failures.values()))
    return values


def describe_size(result: EvalResult) -> str:
    failed = sum(result.failures.values())
    return (
        f"{len(result.examples)} examples x {result.samples} samples in {result.seconds:.1f} s, "
        f"{len(result.rollouts) - failed} rollouts scored, {failed} failed"
    )


def print_result(result: EvalResult) -> None:
    """Write an evaluation as tables: rewards, pass@k, lengths, endings."""
    rows = [("score", result.score()), *((name, result.component(name)) for name in result.components)]
    print_table(
        ["REWARD", "MEAN", "95 % INTERVAL", "SPREAD", "ROLLOUTS"],
        [_mean_row(name, mean) for name, mean in rows if mean is not None],
    )
    print_text()
    data: dict[str, Any] = result.as_dict(with_examples=False)
    for k, value in data["pass_at_k"].items():
        if value is not None:
            print_text(f"pass@{k}  {value:.3f}  (score of at least {result.pass_at:g})")
    if result.signal_share is not None:
        print_text(f"groups with signal  {result.signal_share:.0%}")
    for name, found in data["lengths"].items():
        if found is not None:
            print_text(
                f"{name.replace('_', ' ')}  mean {found['mean']:.1f}, median {found['median']:g}, "
                f"p95 {found['p95']:g}, most {found['max']:g}"
            )
    print_text(f"seconds a rollout  {result.seconds_per_rollout:.2f}")
    print_text(f"rollouts ended  {_counts(result.termination_reasons)}")
    if result.finish_reasons:
        print_text(f"replies ended  {_counts(result.finish_reasons)}")
    if result.fidelity is not None:
        print_text(f"recorded       {result.fidelity.describe()}")


def _mean_row(name: str, mean: Mean) -> list[str]:
    return [
        name,
        f"{mean.mean:.3f}",
        f"{mean.low:.3f} to {mean.high:.3f}",
        f"{mean.stdev:.3f}",
        str(mean.rollouts),
    ]


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{reason} {n}" for reason, n in counts.items())
