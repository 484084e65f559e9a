"""`castform x journal show`."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from castform.plugins import UsageError
from castform_watch_journal.journal import read_events


def show(args: argparse.Namespace) -> int:
    """Print time, event and fields, one event a line."""
    try:
        for record in read_events(Path(args.run_dir)):
            if args.event in (None, record["event"]):
                moment = datetime.fromtimestamp(record.pop("time"), UTC).isoformat(timespec="seconds")
                record.pop("run")
                name = record.pop("event")
                sys.stdout.write(f"{moment}  {name:<16}  {json.dumps(record, ensure_ascii=False)}\n")
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no journal at {args.run_dir}",
            hint='a run writes one when its config says watchers = ["journal"] under [run]',
        ) from error
    return 0
