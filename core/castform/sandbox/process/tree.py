"""Every process that a box has started, found by a mark in its environment.

A program that starts a session of its own, or is orphaned, keeps the mark; so do its children.
A process that wipes its environment is found as long as a parent of it runs; one that has lost its
parent as well is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

BOX_MARK = "CASTFORM_SANDBOX"
"""The variable that every program in a box has; its value is the box's id."""
EXEC_MARK = "CASTFORM_EXEC"
"""The same for all that one command starts."""
_PROC = Path("/proc")
_KILL_SECONDS = 10.0
"""Longest to chase what forks while it is killed."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def can_find() -> bool:
    """Say whether this system shows other processes' environments."""
    return (_PROC / "self" / "environ").exists()


def find_members(mark: str, *, root: int | None = None) -> list[int]:
    """Return the ids of the processes with a mark, `NAME=value`, those that have ended left out.

    `root`: a process that counts with its descendants as well.
    """
    needle = mark.encode()
    parents: dict[int, int] = {}
    members: set[int] = set() if root is None else {root}
    for pid in _process_ids():
        parent = _read_parent(pid)
        if parent is None:
            continue
        parents[pid] = parent
        with contextlib.suppress(OSError):
            if needle in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                members.add(pid)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in members} - members
        members |= more
        grown = bool(more)
    return sorted(pid for pid in members if pid in parents and pid != os.getpid())


def measure_members(members: list[int]) -> int:
    """Return the resident memory of processes in bytes; what they share counts for each."""
    total = 0
    for pid in members:
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += int((_PROC / str(pid) / "statm").read_text("ascii").split()[1]) * _PAGE_BYTES
    return total


async def kill_members(mark: str, *, root: int | None = None) -> None:
    """Kill all that has a mark, `NAME=value`, until none is left.

    They are stopped before the first is killed: who loses its parent could not be found any more.
    `root`: the first process of a command; it leads a session and is not reaped yet, so that its
    id means nobody else.
    """
    if not can_find():
        if root is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(root, signal.SIGKILL)
        return
    deadline = time.monotonic() + _KILL_SECONDS
    stopped: set[int] = set()
    while time.monotonic() < deadline:
        members = set(await asyncio.to_thread(find_members, mark, root=root))
        new = members - stopped
        for pid in new:
            _send(pid, signal.SIGSTOP)
        stopped |= new
        if new:
            continue
        for pid in members:
            _send(pid, signal.SIGKILL)
        if not members:
            return
        stopped.clear()
        await asyncio.sleep(0.01)
    for pid in stopped:
        _send(pid, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _process_ids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208 - names are all it takes


def _read_parent(pid: int) -> int | None:
    """Return the parent's id; None for a process that has ended, reaped or not."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    state, parent = stat.rpartition(b")")[2].split()[:2]  # the name before it may hold anything
    return None if state in (b"Z", b"X") else int(parent)
