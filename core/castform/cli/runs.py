"""`castform runs`: look at runs while they go and afterwards, and ask one to stop."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from castform.cli.environment_pin import describe_pin
from castform.cli.output import print_fields, print_json, print_note, print_table, print_text
from castform.errors import UsageError
from castform.safe_text import safe_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from castform.fidelity import CallFidelity
    from castform.runs import EvalRecord, RolloutRecord, RunRecord, RunStore, ScalarPoint

_ACTIVE = ("pending", "running")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `list`, `status`, `scalars`, `rollouts`, `rollout`, `answers` and `stop`."""
    commands = parser.add_subparsers(
        dest="action",
        required=True,
        metavar="list|status|scalars|rollouts|rollout|answers|stop",
        prog=parser.prog,
    )
    listing = commands.add_parser("list", help="runs, newest first")
    listing.add_argument("--kind", choices=("train", "sft", "eval", "validate", "rescore"), help="only these")
    listing.add_argument("--limit", type=int, default=50, metavar="N", help="most runs that are shown (50)")
    status = _add(commands, "status", "how one run goes")
    scalars = _add(commands, "scalars", "a run's curves")
    scalars.add_argument(
        "--mode", help="train, eval, …; default: train, else all; with --name, and of finetuning, all"
    )
    scalars.add_argument("--name", help="all points of one scalar")
    scalars.add_argument("--csv", action="store_true", help="all points as CSV: mode, name, step, value")
    rollouts = _add(commands, "rollouts", "a run's rollouts")
    rollouts.add_argument("--mode", help="train, eval, …")
    rollouts.add_argument("--step", type=int)
    rollouts.add_argument("--example", metavar="ID", help="of one example")
    rollouts.add_argument("--limit", type=int, default=50, metavar="N", help="most that are shown (50)")
    rollout = _add(commands, "rollout", "one rollout with its transcript")
    rollout.add_argument("rollout_id", help="rollout id, or a unique beginning of one")
    answers = _add(commands, "answers", "what a finetuned model answers to held-out rows")
    answers.add_argument("--all", action="store_true", help="also the rows whose answer did not change")
    stop = _add(commands, "stop", "ask a run to stop")
    for command in (listing, status, scalars, rollouts, rollout, answers, stop):
        command.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _add(commands: Any, name: str, help: str) -> argparse.ArgumentParser:  # argparse's action type is private
    command: argparse.ArgumentParser = commands.add_parser(name, help=help)
    command.add_argument("run_id", help="run id, or a unique beginning of one")
    return command


def run(args: argparse.Namespace) -> int:
    """Run the action that was asked for."""
    from castform.runs import RunStore

    actions = {
        "list": _list,
        "status": _status,
        "scalars": _scalars,
        "rollouts": _rollouts,
        "rollout": _rollout,
        "answers": _answers,
        "stop": _stop,
    }
    with RunStore.open() as store:
        return actions[args.action](store, args)


def _list(store: RunStore, args: argparse.Namespace) -> int:
    runs = store.list_runs(kind=args.kind, limit=args.limit)
    if args.json:
        print_json([_run_dict(record) for record in runs])
    elif runs:
        print_table(
            ["ID", "KIND", "NAME", "STATUS", "CREATED"],
            [[r.run_id, r.kind, safe_line(r.name), r.status, _when(r.created)] for r in runs],
        )
    else:
        print_note("no runs yet")
    return 0


def _status(store: RunStore, args: argparse.Namespace) -> int:
    record = store.find_run(args.run_id)
    counts = store.count_rollouts(record.run_id)
    scalars = store.read_scalars(record.run_id, mode="train").get("train", {})
    step = max((points[-1].step for points in scalars.values()), default=None)
    steps = _planned_steps(store, record)
    evals = store.list_evals(record.run_id)
    verdicts = [e.result for e in evals if e.label == "verdict"]
    verdict = verdicts[-1].get("sentence") if verdicts else None
    pins = store.list_pins(record.run_id)
    score = _score(record, evals)
    if args.json:
        print_json(
            {
                **_run_dict(record),
                "step": step,
                "steps": steps,
                "score": score,
                "pins": {pin.digest: pin.pin for pin in pins},
                "rollouts": counts,
                "latest": {name: points[-1].value for name, points in scalars.items()},
                "evals": [{"label": e.label, "step": e.step, "at": e.at, "result": e.result} for e in evals],
                "verdict": verdict,
                "config": record.config,
                "events": [asdict(event) for event in store.list_events(record.run_id, limit=20)],
            }
        )
        return 0
    print_fields(
        {
            "run": record.run_id,
            "kind": record.kind,
            "name": safe_line(record.name),
            "status": record.status + (" (asked to stop)" if _is_stopping(record) else ""),
            "created": _when(record.created),
            "updated": _when(record.updated),
            **({} if step is None else {"step": f"{step} of {steps}" if steps else str(step)}),
            **({} if record.error is None else {"error": safe_line(record.error)}),
            **({} if verdict is None else {"verdict": verdict}),
            **(_describe_answers(verdicts[-1]) if verdicts and record.kind == "sft" else {}),
            **({} if score is None else {"score": _describe_score(score)}),
            **_describe_environment(record),
            **({} if len(pins) < 2 else {"earlier": "; ".join(describe_pin(pin.pin) for pin in pins[:-1])}),
            **({} if record.parent_id is None else {"made from": record.parent_id}),
            **_describe_rollouts(record, counts),
            "folder": record.run_dir,
        }
    )
    if scalars:
        print_text(f"\nstep {step}, latest scalars")
        print_fields({f"  {name}": _number(points[-1].value) for name, points in scalars.items()})
    return 0


def _describe_environment(record: RunRecord) -> dict[str, str]:
    if record.kind == "sft":  # finetuning has none
        return {}
    return {"environment": describe_pin(record.environment) if record.environment.get("id") else ""}


def _describe_rollouts(record: RunRecord, counts: dict[str, dict[str, int]]) -> dict[str, str]:
    if record.kind == "sft":
        return {}
    parts = (f"{mode}: {n['scored']} scored, {n['unscored']} failed" for mode, n in counts.items())
    return {"rollouts": "; ".join(parts)}


def _scalars(store: RunStore, args: argparse.Namespace) -> int:
    if args.csv and args.json:
        raise UsageError("--csv and --json are two forms of one thing", hint="give one of them")
    record = store.find_run(args.run_id)
    found = store.read_scalars(record.run_id)
    is_whole = args.name or record.kind == "sft"  # its curves are few: both losses at a glance
    mode = args.mode or ("train" if "train" in found and not is_whole else None)
    if mode is not None:
        if args.mode and found and mode not in found:
            raise UsageError(
                f"run {record.run_id} has no scalars of mode {mode!r}", hint=f"it has {', '.join(found)}"
            )
        found = {mode: found.get(mode, {})}
    if args.name:
        if not any(args.name in names for names in found.values()):
            raise UsageError(
                f"run {record.run_id} has no scalar {args.name!r}",
                hint=f"`castform runs scalars {record.run_id}` lists them",
            )
        found = {m: {n: p for n, p in names.items() if n == args.name} for m, names in found.items()}
    if args.json:
        print_json(
            {
                "run_id": record.run_id,
                "modes": {
                    m: {n: [asdict(p) for p in ps] for n, ps in names.items()} for m, names in found.items()
                },
            }
        )
    elif args.csv:
        _print_csv(found)
    elif args.name:
        rows = [[m, p.step, _number(p.value)] for m, names in found.items() for p in names.get(args.name, [])]
        print_table(["MODE", "STEP", "VALUE"], rows)
    else:
        print_table(
            ["MODE", "SCALAR", "POINTS", "LAST STEP", "LAST VALUE"],
            [
                [m, name, len(points), points[-1].step, _number(points[-1].value)]
                for m, names in found.items()
                for name, points in names.items()
            ],
        )
    return 0


def _print_csv(found: Mapping[str, Mapping[str, Sequence[ScalarPoint]]]) -> None:
    """Write a line a point; a value that was not finite is empty."""
    import csv
    import io

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["mode", "name", "step", "value"])
    rows.writerows(
        [mode, name, point.step, point.value]
        for mode, names in found.items()
        for name, points in names.items()
        for point in points
    )
    print_text(text.getvalue().removesuffix("\n"))


def _rollouts(store: RunStore, args: argparse.Namespace) -> int:
    record = store.find_run(args.run_id)
    rollouts = store.list_rollouts(
        record.run_id, mode=args.mode, step=args.step, example_id=args.example, limit=args.limit
    )
    counts = store.count_rollouts(record.run_id)
    if args.json:
        print_json(
            {
                "run_id": record.run_id,
                "counts": counts,
                "pins": {pin.digest: pin.pin for pin in store.list_pins(record.run_id)},
                "rollouts": [_rollout_dict(rollout, with_messages=False) for rollout in rollouts],
            }
        )
        return 0
    print_table(
        ["ROLLOUT", "MODE", "STEP", "EXAMPLE", "SCORE", "REWARDS", "ENDED", "TOKENS"],
        [
            [
                rollout.rollout_id,
                rollout.mode,
                rollout.step,
                safe_line(rollout.example_id)[:24],
                _number(rollout.score),
                ", ".join(f"{name} {_number(value)}" for name, value in rollout.rewards.items()),
                safe_line(rollout.termination_reason),
                rollout.completion_tokens,
            ]
            for rollout in rollouts
        ],
    )
    total = sum(n["scored"] + n["unscored"] for n in counts.values())
    if len(rollouts) == args.limit < total:
        print_note(f"the first {args.limit}; the run has {total} in all (--limit, --mode, --step, --example)")
    return 0


def _rollout(store: RunStore, args: argparse.Namespace) -> int:
    record = store.find_run(args.run_id)
    rollout = store.get_rollout(record.run_id, args.rollout_id)
    pin = store.get_pin(rollout.pin) if rollout.pin else None
    calls = None
    if rollout.calls_path is not None and record.run_dir is not None:
        calls = record.run_dir / rollout.calls_path
    fidelity = _count_calls(calls, rollout)
    if args.json:
        print_json(
            {
                "run_id": record.run_id,
                **_rollout_dict(rollout, with_messages=True),
                "calls_file": calls,
                "fidelity": None if fidelity is None else asdict(fidelity),
                "environment": pin.pin if pin else None,
            }
        )
        return 0
    from castform.cli.transcript import print_rollout

    print_rollout(rollout, environment=describe_pin(pin.pin) if pin else None, fidelity=fidelity)
    return 0


def _count_calls(path: Path | None, rollout: RolloutRecord) -> CallFidelity | None:
    """Count what the call log says of a rollout; None when the log is not there."""
    from castform.call_log import CallIndex
    from castform.fidelity import count_calls

    calls = CallIndex(path).read(rollout.call_ids) if path is not None else None
    return None if calls is None else count_calls(calls)


def _answers(store: RunStore, args: argparse.Namespace) -> int:
    from castform.cli.runs_answers import show_answers

    return show_answers(store, args)


def _stop(store: RunStore, args: argparse.Namespace) -> int:
    record = store.find_run(args.run_id)
    active = record.status in _ACTIVE
    if active:
        store.request_stop(record.run_id)
    if args.json:
        print_json({"run_id": record.run_id, "status": record.status, "stop_requested": active})
    elif active:
        print_text(f"run {record.run_id} was asked to stop; it ends at its next good moment")
    else:
        print_text(f"run {record.run_id} is not running: {record.status}")
    return 0


def _run_dict(record: RunRecord) -> dict[str, Any]:
    data = asdict(record)
    del data["config"]
    data["run_dir"] = None if record.run_dir is None else str(record.run_dir)
    return data


def _rollout_dict(rollout: RolloutRecord, *, with_messages: bool) -> dict[str, Any]:
    data = asdict(rollout)
    if not with_messages:
        del data["messages"], data["call_ids"]
    return data


def _is_stopping(record: RunRecord) -> bool:
    return record.stop_requested and record.status in _ACTIVE


def _planned_steps(store: RunStore, record: RunRecord) -> int | None:
    """Return how many steps a training run is to take; a run over epochs says so when it starts."""
    if record.kind == "train":
        steps: int | None = record.config.get("run", {}).get("steps")
        return steps
    started = store.list_events(record.run_id, kind="started", limit=1) if record.kind == "sft" else []
    return started[-1].data.get("steps") if started else None


def _score(record: RunRecord, evals: Sequence[EvalRecord]) -> Mapping[str, Any] | None:
    """Return the score that a run was made to measure: a mean with its interval, or for a rescoring both."""
    results = [found.result for found in evals if found.label == record.kind]
    if not results:
        return None
    if record.kind == "rescore":
        return next(iter(results[-1]["components"]), None)
    result: Mapping[str, Any] = results[-1] if record.kind == "eval" else results[-1].get("result") or {}
    return result.get("score")


def _describe_answers(verdict: Mapping[str, Any]) -> dict[str, str]:
    """Return exact match of a finetuning run's answers as a field; none when no rows were answered."""
    from castform.sft.answers import describe_answers, read_comparison

    found = read_comparison(verdict)
    return {} if found is None else {"answers": describe_answers(found, loss=verdict["word"])}


def _describe_score(score: Mapping[str, Any]) -> str:
    if "difference" in score:
        return (
            f"{_number(score['before'])} -> {_number(score['after'])}, "
            f"{score['changed']} of {score['rollouts']} rollouts changed"
        )
    return (
        f"{score['mean']:.3f} (95 % interval {score['low']:.3f} to {score['high']:.3f}, "
        f"{score['examples']} examples, {score['rollouts']} rollouts)"
    )


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
