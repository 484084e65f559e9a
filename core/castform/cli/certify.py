"""`castform env certify`: say whether an environment can be gamed, and leave a certificate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.model_choice import add_model_arguments, check_model_arguments, open_model, read_config
from castform.cli.output import print_fields, print_json, print_note, print_table, print_text
from castform.errors import CastformError, UsageError

if TYPE_CHECKING:
    from castform.certify.batch import BatchResult
    from castform.certify.certification import Certification, CertifyOptions
    from castform.config import RunConfig

EXIT_FAULT = 1
MOST_CHARACTERS = 2000
"""Of one message that is shown."""
MOST_TIMEOUT_SECONDS = 30.0
"""Of one group of probes, which no model slows down."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument(
        "environment",
        nargs="+",
        help="ids, Python files or TOML files that compose one; plugin/* is each of a plugin's, and so is a plugin "
        "with several and no default one",
    )
    parser.add_argument(
        "--jobs", type=_positive, metavar="N", help="of several environments, so many at once (the cores)"
    )
    parser.add_argument("--examples", type=_positive, metavar="N", help="first N examples of the split (24)")
    parser.add_argument("--split", choices=("train", "eval"), default="train", help="default: train")
    parser.add_argument(
        "--samples", type=_positive, metavar="K", help="with a model: rollouts per example (8)"
    )
    parser.add_argument("--only", metavar="NAME", help="one probe or check; shows what was said and paid")
    parser.add_argument("--example", metavar="ID", help="with --only: on this example")
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="CODE=REASON",
        help="a finding that is no fault here, and why; may be repeated",
    )
    parser.add_argument("--output", type=Path, metavar="PATH", help="also write the certificate there")
    parser.add_argument(
        "--max-seconds",
        type=_positive_seconds,
        metavar="S",
        help="of everything; the rest is unchecked (180; 60 of each of several)",
    )
    add_model_arguments(parser, required=False)


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed; 1 when a fault was found, or when the reward could not be looked at."""
    import asyncio

    from castform.cli.certify_many import certify_many, expand_ids
    from castform.cli.measured_run import settle

    check_model_arguments(args)
    accepted = parse_accepted(args.accept)
    if args.example is not None and args.only is None:
        raise UsageError("--example needs --only, the probe or check to play on it")
    if args.only is not None:
        from castform.certify.certify import check_only

        check_only(args.only)
    ids = expand_ids(args.environment)
    args.environment = ids[0]
    config = read_config(args, sampling__temperature=args.temperature)
    arguments = dict(config.environment.args)
    if len(ids) > 1:
        options = make_options(args, config, accepted)
        return certify_many(
            args, ids, arguments=arguments, options=options, save=lambda found: _save(found, None)
        )
    options = make_options(args, config, accepted)
    if args.model is None:
        result = _certify_alone(args, config, arguments, options)
        if result.certification is None:
            return show_failure(result, as_json=args.json)
        certification = result.certification
    else:
        certification = settle(asyncio.run, _certify(args, config, arguments, options))
    path, unsaved = None, None
    if args.only is None:
        try:
            path = _save(certification, args.output)
        except CastformError as error:
            unsaved = error  # what was found is worth more: it is shown first
    for code in certification.unused_accepts:
        print_note(f"note: --accept {code}: nothing was found under this code")
    if args.json:
        print_json({**certification.as_dict(), "certificate": None if path is None else str(path)})
    else:
        if args.only is not None:
            print_plays(certification)
        print_certification(certification)
        print_text(f"{certification.id}: {certification.describe()}")
        if path is not None:
            print_note(f"certificate: {path}")
    if unsaved is not None:
        raise unsaved
    if args.only is not None:
        return EXIT_FAULT if certification.still_there else 0
    return 0 if certification.passed else EXIT_FAULT


def make_options(args: argparse.Namespace, config: RunConfig, accepted: dict[str, str]) -> CertifyOptions:
    """Return the options that the command line and the settings mean."""
    from castform.calls import Sampling
    from castform.certify.certification import CertifyOptions

    given: dict[str, Any] = {
        "examples": args.examples,
        "samples": args.samples,
        "max_seconds": args.max_seconds,
        "only": args.only,
        "example": args.example,
    }
    return CertifyOptions(
        split=args.split,
        seed=config.run.seed,
        weights=config.environment.weights,
        timeout_seconds=min(config.rl.rollout_timeout_seconds, MOST_TIMEOUT_SECONDS),
        accepted=accepted,
        sampling=Sampling(
            max_new_tokens=config.sampling.max_new_tokens, temperature=config.sampling.temperature
        ),
        groups_per_step=config.rl.groups_per_step,
        concurrency=config.rl.max_concurrent_rollouts,
        max_context_tokens=config.sampling.max_context_tokens,
        **{name: value for name, value in given.items() if value is not None},
    )


def _save(found: Certification, output: Path | None) -> Path:
    """Write the certificate where listings look for it, and to `output`; return the first path."""
    from datetime import UTC, datetime

    from castform.certify.certificate import certificate_path, make_certificate, save_certificate

    certificate = make_certificate(found, certified_at=datetime.now(UTC))
    path = certificate_path(found)
    for place in (path, output):
        if place is not None:
            save_certificate(certificate, place)
    return path


def parse_accepted(words: list[str]) -> dict[str, str]:
    """Read CODE=REASON words. UsageError for one without a reason."""
    accepted = {}
    for text in words:
        code, _, reason = text.partition("=")
        if not code.strip() or not reason.strip():
            raise UsageError(
                f"--accept {text!r} is not CODE=REASON", hint="the reason is kept in the certificate"
            )
        accepted[code.strip()] = reason.strip()
    return accepted


def _certify_alone(
    args: argparse.Namespace, config: RunConfig, arguments: dict[str, Any], options: CertifyOptions
) -> BatchResult:
    from castform.certify.alone import certify_alone

    base = config.environment.base_dir
    return certify_alone(
        config.environment.id,
        arguments,
        options=options,
        base_dir=None if base == Path() else base,
        verbose=args.verbose,
        on_stage=_say,
    )


def show_failure(result: BatchResult, *, as_json: bool) -> int:
    """Say why there is no certification."""
    from castform.cli.validate import MARKS

    if as_json:
        print_json({**result.as_dict(), "certificate": None})
    else:
        for finding in result.findings:
            print_text(f"{MARKS[finding.level]}: {finding.message}")
        print_text(f"\n{result.id}: {'unchecked' if result.verdict == 'unchecked' else 'not certified'}")
    return EXIT_FAULT


async def _certify(
    args: argparse.Namespace, config: RunConfig, arguments: dict[str, Any], options: CertifyOptions
) -> Certification:
    from castform.certify.certify import certify
    from castform.cli.measured_run import MeasuredRun, base_folder
    from castform.environments import check_ready
    from castform.plugins import load_environment
    from castform.stuck import end_when_stuck

    loaded = load_environment(config.environment.id, arguments)
    try:
        await check_ready(loaded.environment)
        async with MeasuredRun(
            kind="certify", config=config, loaded=loaded, logs_calls=bool(args.base_url)
        ).open(lambda log_path: open_model(args, config, log_path=log_path), total=options.examples) as (
            measured,
            (endpoint, version),
        ):
            with end_when_stuck(options.max_seconds):
                found = await certify(
                    loaded,
                    arguments=arguments,
                    endpoint=endpoint,
                    version=version,
                    options=options,
                    base_dir=base_folder(config, loaded),
                    model_flags=_model_flags(args),
                    on_stage=_say,
                    on_group=measured.on_group,
                    record=measured.record,
                )
            measured.store_result("certify", found.as_dict(), {})
            return found
    finally:
        await loaded.environment.aclose()


def _model_flags(args: argparse.Namespace) -> dict[str, str]:
    """Return the options that say which model, besides -m; of the key only the variable that holds it."""
    given = {
        "--base-url": args.base_url,
        "--api-key-env": args.api_key_env,
        "--adapter": args.adapter,
        "--temperature": args.temperature,
        "--max-new-tokens": args.max_new_tokens,
    }
    return {flag: str(value) for flag, value in given.items() if value is not None}


def print_plays(found: Certification) -> None:
    """Write what was said, answered and paid: the right answer and the probe, where it was found or asked for."""
    from castform.cli.transcript import print_messages

    if found.probes is None:
        return
    shown = {found.options.example, *(finding.example_id for finding in found.findings)} - {None}
    for group in found.probes.groups:
        if group.example_id not in shown:
            continue
        for rollout in group.rollouts:
            probe = found.probes.probe_of.get(rollout.rollout_id, "")
            if probe not in ("gold", found.options.only):
                continue
            fields: dict[str, object] = {
                "played": "the right answer" if probe == "gold" else probe,
                "example": rollout.example_id,
                "score": "not scored" if rollout.score is None else f"{rollout.score:g}",
                **{f"  {name}": f"{value:g}" for name, value in rollout.rewards.items()},
                "ended": rollout.termination_reason,
                **({} if rollout.error is None else {"error": rollout.error}),
            }
            print_fields(fields)
            print_messages(rollout.messages, most_characters=MOST_CHARACTERS)
            print_text()


def print_certification(found: Certification) -> None:
    """Write what was measured as tables, then every finding with how to see it again."""
    from castform.cli.validate import MARKS, print_probes

    if found.probes is not None:
        print_probes(found.probes)
    if found.rates is not None:
        print_table(
            ["FIGURE", "SHARE", "95 % INTERVAL", "N", "WHERE"],
            [
                [name, f"{rate.share:.3f}", f"{rate.low:.3f} to {rate.high:.3f}", rate.n, rate.what]
                for name, rate in found.rates.named().items()
            ],
        )
        print_text()
    if found.forecast is not None:
        from castform.cli.forecast_tables import print_forecast

        print_forecast(found.forecast)
    for finding in found.findings:
        reason = found.options.accepted.get(finding.code)
        mark = "accepted" if reason is not None else MARKS[finding.level]
        print_text(f"{mark}: {finding.message}" + (f" [{finding.code}: {reason}]" if reason else ""))
        again = found.reproduce(finding)
        if again is not None and finding.level in ("fault", "warning"):
            print_text(f"    {again}")
    if any(finding.code == "no_time" for finding in found.findings):
        print_note("hint: --max-seconds gives it more time, --examples less to do")
    if found.findings:
        print_text()


def _say(stage: str) -> None:
    print_note(f"checking: {stage}")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _positive_seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return value
