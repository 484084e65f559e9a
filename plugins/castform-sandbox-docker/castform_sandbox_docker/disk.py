"""How much a box has written, and the watch over it.

Where the engine's storage driver takes a size, the kernel holds it. Elsewhere what a box wrote is
measured about once a second: as root on the engine's machine by its files, else by the engine.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
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


def measure_folders(folders: Sequence[str], *, view: HostView | None) -> int:
    """Return the bytes that the files below some folders take up, and deleted ones that are still held."""
    seen: set[tuple[int, int]] = set()
    total = sum(measure_tree(Path(folder), seen) for folder in folders)
    if view is not None:
        total += _measure_deleted(view, folders)
    return total


def _measure_deleted(view: HostView, folders: Sequence[str]) -> int:
    """Return the bytes of files without a name that a process of the box holds open or mapped."""
    found: dict[int, int] = {}
    with contextlib.suppress(OSError):
        # A mapped file of an overlay is seen as one of the file system that it really lies on.
        devices = {os.stat(f"/proc/{view.init}/root").st_dev, *(os.stat(folder).st_dev for folder in folders)}  # noqa: PTH116 - a link of /proc, followed once
        for pid in view.groups.pids():
            for path in (*_list_open(pid), *_list_mapped(pid)):
                with contextlib.suppress(OSError):
                    status = os.stat(path)  # noqa: PTH116 - as above
                    if status.st_nlink == 0 and stat.S_ISREG(status.st_mode) and status.st_dev in devices:
                        found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def _list_open(pid: int) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        return [entry.path for entry in entries]
    return []


def _list_mapped(pid: int) -> list[str]:
    """Return links to files that a process has mapped and that have no name any more."""
    found = []
    with (
        contextlib.suppress(OSError),
        Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as lines,
    ):
        for line in lines:
            if line.endswith("(deleted)\n"):
                begin, _, end = line.partition(" ")[0].partition("-")
                found.append(f"/proc/{pid}/map_files/{int(begin, 16):x}-{int(end, 16):x}")
    return found
