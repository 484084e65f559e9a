"""Tell whether the process that owns a run is still there.

A process id alone is not enough, ids are reused: the start time goes with it.
"""

from __future__ import annotations

import os
from pathlib import Path

STALE_SECONDS = 300.0
"""A run of another machine without a heartbeat for this long is lost."""


def process_start(pid: int) -> str | None:
    """Return a mark of when `pid` started, or None when there is no such process (or no /proc)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the command name before it may hold spaces
    return None if fields[0] == "Z" else fields[19]


def is_alive(pid: int, started: str | None) -> bool:
    """Say whether the process with this id, started at that mark, still runs on this machine."""
    if Path("/proc/self/stat").exists():
        now = process_start(pid)
        return now is not None and (started is None or now == started)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
