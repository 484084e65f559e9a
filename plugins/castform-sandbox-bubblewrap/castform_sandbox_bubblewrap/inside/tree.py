"""Processes of the box, by what /proc says, and ending them."""
# ruff: noqa: PTH123, PTH208
# pathlib would be half of the start-up time

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as in init.py
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # without `typing`: each import is part of a box's start
    from collections.abc import Callable

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ROUNDS = 25


def read_parents() -> dict[int, int]:
    """Return every process that still runs, and its parent. Ended ones that nobody waited for are left out."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
            parents[int(name)] = int(fields[1])
    return parents


def find_below(roots: set[int], parents: dict[int, int]) -> set[int]:
    """Return the descendants of `roots`, themselves left out."""
    found: set[int] = set()
    grown = True
    while grown:
        more = {
            pid
            for pid, parent in parents.items()
            if (parent in roots or parent in found) and pid not in found
        }
        more -= roots
        found |= more
        grown = bool(more)
    return found


def find_strays(known: set[int]) -> set[int]:
    """Return what hangs on the first process without being `known`, with all below it."""
    parents = read_parents()
    roots = {pid for pid, parent in parents.items() if parent == 1 and pid not in known}
    return roots | find_below(roots, parents)


def kill_below(root: int, *, hold: bool) -> None:
    """Kill the descendants of a process; `hold`: while all of the box is held still.

    A program that forks and ends, over and over, is gone wherever one looks for it, unless it is held still first.
    """
    _kill(lambda: find_below({root}, read_parents()), hold)


def kill_strays(known: set[int], *, hold: bool) -> None:
    """Kill what hangs on the first process without being `known`, with all below it. `hold`: as above."""
    _kill(lambda: find_strays(known), hold)


def _kill(find: Callable[[], set[int]], hold: bool) -> None:
    """Kill what is found. What forks meanwhile is stopped first, so that it cannot go on."""
    if hold:
        signal_all(_signal.SIGSTOP)
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        found = find() - stopped
        if not found:
            break
        send(found, _signal.SIGSTOP)
        stopped |= found
    send(stopped, _signal.SIGKILL)
    if hold:
        signal_all(_signal.SIGCONT)


def signal_all(number: int) -> bool:
    """Send a signal to all processes but the first, between two forks; False where there is none."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return False
    return True


def send(pids: set[int], number: int) -> None:
    """Send a signal to each; those that are gone are passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def measure_memory() -> int:
    """Return the resident memory of all processes and what /dev/shm holds, in bytes; what they share counts for each.

    What no process has mapped (files of `memfd_create`, full pipes) is not seen.
    """
    shared = os.statvfs("/dev/shm")
    total = (shared.f_blocks - shared.f_bfree) * shared.f_frsize
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/statm", "rb") as file:
                total += int(file.read().split()[1]) * PAGE_BYTES
        except (OSError, IndexError, ValueError):
            continue
    return total
