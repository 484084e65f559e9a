"""`castform harbor trajectory`: rollouts of a run as ATIF files, and whether files are ATIF."""

from __future__ import annotations

import argparse
import pkgutil
from pathlib import Path
from typing import Any

from castform.cli.output import print_json, print_note, print_table, print_text
from castform.errors import CastformError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="a run, whose recorded rollouts become files")
    parser.add_argument(
        "--rollout", action="append", metavar="ID", help="only this rollout of it; may be given again"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="where the files go; a new folder")
    parser.add_argument(
        "--check", type=Path, nargs="+", metavar="FILE", help="read ATIF files and say what is in them"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Write or check. 1: a file is no ATIF, or no rollout of the run has calls."""
    if (args.run is None) == (args.check is None):
        raise UsageError("name a run, with -o DIR, or files to --check")
    if args.check is not None:
        return _check(args.check, as_json=args.json)
    if args.output is None:
        raise UsageError("a run's trajectories need -o DIR")
    return _write(args)


def _check(files: list[Path], *, as_json: bool) -> int:
    read = pkgutil.resolve_name("castform_harbor.atif:read_atif")
    read_calls = pkgutil.resolve_name("castform_harbor.atif_calls:read_calls")
    rows: list[dict[str, Any]] = []
    for file in files:
        try:
            found = read(file)
        except CastformError as error:
            rows.append({"file": str(file), "problem": str(error)})
            continue
        calls = read_calls(found)
        rows.append(
            {
                "file": str(file),
                "version": found.schema_version,
                "agent": found.agent.name,
                "steps": len(found.steps),
                "calls": len(calls),
                "calls_with_tokens": sum(call.sampled_ids is not None for call in calls),
                "problem": None,
            }
        )
    if as_json:
        print_json(rows)
    else:
        shown = [
            [row.get(name) for name in ("file", "version", "agent", "steps", "calls", "calls_with_tokens")]
            for row in rows
        ]
        print_table(["FILE", "VERSION", "AGENT", "STEPS", "CALLS", "WITH TOKENS"], shown)
        for row in rows:
            if row["problem"]:
                print_text(row["problem"])
    return 1 if any(row["problem"] for row in rows) else 0


def _write(args: argparse.Namespace) -> int:
    from castform.runs import RunStore
    from castform.stored_groups import StoredCalls

    make = pkgutil.resolve_name("castform_harbor.atif_calls:make_trajectory")
    write = pkgutil.resolve_name("castform_harbor.atif:write_atif")
    folder: Path = args.output
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is no empty folder", hint="write to a new folder")
    with RunStore.open() as store:
        record = store.find_run(args.run)
        chosen = [store.get_rollout(record.run_id, word) for word in args.rollout or ()]
        calls = StoredCalls(store, record)
        written, without = [], 0
        for rollout in chosen or store.list_rollouts(record.run_id):
            recorded = [call for call in calls.read(rollout) or () if call.finish_reason != "error"]
            if not recorded:
                without += 1
                continue
            folder.mkdir(parents=True, exist_ok=True)
            notes = f"score {rollout.score}, ended: {rollout.termination_reason}"
            made = make(
                recorded, session_id=rollout.rollout_id, model_name=_model_of(record.config), notes=notes
            )
            file = folder / f"{rollout.rollout_id}.json"
            write(made, file)
            written.append(file)
    if args.json:
        print_json({"files": written, "without_calls": without})
    else:
        print_text(f"{len(written)} trajectories in {folder}")
        if without:
            print_note(f"{without} rollouts have no recorded calls")
    return 0 if written else 1


def _model_of(config: Any) -> str | None:
    model = config.get("model", {}) if isinstance(config, dict) else {}
    return str(model["id"]) if model.get("id") else None
