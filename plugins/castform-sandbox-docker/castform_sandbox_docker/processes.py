"""Which processes of a box belong to a command, and which to nobody.

Every command carries a marker in its environment, which its children inherit. A process that
clears its environment is still known by its session and its parents; one that cleared it, left its
session and lost its parent is known by having come up while the command ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MARKER = "CASTFORM_EXEC"
"""The environment variable that holds a command's marker. It opens nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """A process, as /proc describes it."""

    pid: int
    parent: int
    session: int
    started: int
    """Clock ticks since the machine was booted."""
    marker: str


def read_process(pid: int, *, proc: Path = Path("/proc")) -> Process | None:
    """Return a process; None when there is no such one, or nothing but its exit status is left."""
    folder = proc / str(pid)
    try:
        line = (folder / "stat").read_bytes().decode("utf-8", "replace")
        environment = (folder / "environ").read_bytes()
    except OSError:
        return None
    return parse_process(pid, line, find_marker(environment))


def parse_process(pid: int, stat: str, marker: str) -> Process | None:
    """Return the process that a line of /proc/N/stat describes; None for a zombie."""
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in ("Z", "X"):
        return None
    return Process(
        pid=pid, parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]), marker=marker
    )


def find_marker(environment: bytes) -> str:
    """Return the marker in an environment; empty when there is none."""
    start = MARKER.encode() + b"="
    for entry in environment.split(b"\0"):
        if entry.startswith(start):
            return entry[len(start) :].decode("utf-8", "replace")
    return ""


def find_own(
    processes: Iterable[Process],
    *,
    init: int,
    marker: str,
    leader: int | None,
    since: int,
    others: Collection[str] = (),
) -> set[int]:
    """Return the processes of one command.

    `leader` is its first process, `since` the tick at which it started, `others` the markers of
    commands that run at the same time. Never returns `init`.
    """
    table = {process.pid: process for process in processes}
    own = {
        process.pid
        for process in table.values()
        if process.marker == marker or (leader is not None and leader in (process.pid, process.session))
    }
    for process in table.values():
        line = _line_of(process, table, init)
        top = line[-1]
        if any(member.pid in own for member in line):
            own.add(process.pid)
        elif (
            top.started >= since
            and top.session != _session_of(init, table)
            and not any(member.marker in others for member in line)
        ):
            own.add(process.pid)  # nobody's child: it came up meanwhile, and no other command answers for it
    own.discard(init)
    return own


def find_left_running(processes: Iterable[Process], *, init: int, since: int) -> set[int]:
    """Return what commands left running: all but `init` and what the image itself started.

    `since`: the tick before which no command was started.
    """
    table = {process.pid: process for process in processes}
    found: set[int] = set()
    for process in table.values():
        line = _line_of(process, table, init)
        foreign = line[-1].started >= since and line[-1].session != _session_of(init, table)
        if foreign or any(member.marker for member in line):
            found.add(process.pid)
    found.discard(init)
    return found


def _line_of(process: Process, table: Mapping[int, Process], init: int) -> list[Process]:
    """Return a process and its parents, up to the one below `init` or outside of the box."""
    line, seen = [process], {process.pid, init}
    while (parent := table.get(line[-1].parent)) is not None and parent.pid not in seen:
        line.append(parent)
        seen.add(parent.pid)
    return line


def _session_of(pid: int, table: Mapping[int, Process]) -> int | None:
    process = table.get(pid)
    return process.session if process is not None else None
