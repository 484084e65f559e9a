"""The processes that a server has started, also those that left its group. Linux only; elsewhere there are none."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

MARK = "BENCHMAX_MCP_SERVER"
"""Environment variable whose value tells a server's processes from all others, also when their parents are gone."""
MAX_ROUNDS = 5
"""Of killing: a process may start another one meanwhile."""
_PROC = Path("/proc")
_PARENT, _STARTED = 1, 19
"""Fields of `/proc/<pid>/stat` behind the name (proc_pid_stat(5) has them as 4 and 22)."""


def read_start(pid: int) -> str | None:
    """Return when a process was started, in the system's ticks; None when there is none."""
    try:
        return _split_stat(_read(f"{_PROC}/{pid}/stat"))[_STARTED]
    except OSError:
        return None


def list_family(mark: str, members: Mapping[int, str]) -> dict[int, str]:
    """Return the processes that carry the mark or descend from `members` or from each other: pid to start time.

    Members that have ended are left out, and what has their pid now is none.
    """
    stats = {pid: fields for pid, fields in _read_stats() if fields[0] != "Z"}
    wanted = f"{MARK}={mark}".encode()
    found = {
        pid: fields[_STARTED]
        for pid, fields in stats.items()
        if members.get(pid) == fields[_STARTED] or wanted in _read_environ(pid)
    }
    grown = True
    while grown:
        children = {pid for pid, fields in stats.items() if int(fields[_PARENT]) in found} - set(found)
        found |= {pid: stats[pid][_STARTED] for pid in children}
        grown = bool(children)
    found.pop(os.getpid(), None)
    return found


def kill_family(mark: str, members: Mapping[int, str]) -> None:
    """Kill them all, and what they start meanwhile."""
    killed: set[int] = set()
    for _ in range(MAX_ROUNDS):
        found = list_family(mark, members)
        if not set(found) - killed:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= set(found)


def _read_stats() -> Iterator[tuple[int, list[str]]]:
    if not (_PROC / "self" / "stat").exists():
        return
    with os.scandir(_PROC) as folders:
        for folder in folders:
            if folder.name.isdigit():
                with contextlib.suppress(OSError):  # it is gone meanwhile
                    yield int(folder.name), _split_stat(_read(f"{folder.path}/stat"))


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)  # hundreds of files at a time: `open` takes thrice as long
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 17), b""))
    finally:
        os.close(descriptor)


def _split_stat(content: bytes) -> list[str]:
    """Return the fields behind the name, which may hold anything."""
    return content.rpartition(b")")[2].decode("ascii").split()


def _read_environ(pid: int) -> list[bytes]:
    try:
        return _read(f"{_PROC}/{pid}/environ").split(b"\0")
    except OSError:  # it is gone, or somebody else's
        return []
