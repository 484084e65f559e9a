"""How much a box has written, and the watch over it.

Where the engine's storage driver takes a size, the kernel holds it. Elsewhere what a box wrote is
measured about once a second: as root on the engine's machine by its files, else by the engine.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from castform.sandbox.trees import BEYOND_MEASURE, measure_tree
from castform_sandbox_docker.host_view import HostView

INTERVAL_SECONDS = 1.0
"""Between two measurements of a box, or ten times as long as one took."""
FRESH_FILES_FLOOR = 1 << 20
"""Bytes that the engine itself writes into a new box."""


def describe_excess(used: int, limit: int) -> str:
    """Return why a box that has written more than it may is ended."""
    if used >= BEYOND_MEASURE:
        return "its folders lie so deep that what it wrote cannot be measured"
    return f"it wrote {used >> 20} MiB, more than the {limit >> 20} MiB of disk it may use"


def measure_folders(folders: Iterable[str], *, view: HostView | None) -> int:
    """Return the bytes that the files below some folders take up, and deleted ones that are still open."""
    seen: set[tuple[int, int]] = set()
    total = sum(measure_tree(Path(folder), seen) for folder in folders)
    if view is not None:
        total += _measure_deleted(view, seen)
    return total


def _measure_deleted(view: HostView, seen: set[tuple[int, int]]) -> int:
    """Return the bytes of files without a name that a process of the box holds open."""
    total = 0
    with contextlib.suppress(OSError):
        device = os.stat(f"/proc/{view.init}/root").st_dev  # noqa: PTH116 - a link of /proc, followed once
        for pid in view.groups.pids():
            with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        status = entry.stat()
                        key = (status.st_dev, status.st_ino)
                        if (
                            status.st_nlink == 0
                            and stat.S_ISREG(status.st_mode)
                            and status.st_dev == device
                            and key not in seen
                        ):
                            seen.add(key)
                            total += status.st_blocks * 512
    return total
