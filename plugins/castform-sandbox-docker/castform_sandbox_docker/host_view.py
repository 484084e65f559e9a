"""A box as root of the engine's machine sees it: processes, control groups, the life of the first process.

Everything here works without the engine, so commands can be killed while it hangs or is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from castform_sandbox_docker.cgroups import Groups, find_groups
from castform_sandbox_docker.processes import Process, read_process

_ROUNDS_BEFORE_FREEZING = 1
_KILL_SECONDS = 10.0
_PAUSE_SECONDS = 0.002


class HostView:
    """A running box. `close` gives back the handle on its first process."""

    def __init__(self, *, container_id: str, init: int, groups: Groups, pidfd: int) -> None:
        self.container_id = container_id
        self.init = init
        """The box's first process, as this machine numbers it."""
        self.groups = groups
        self._pidfd = pidfd

    def is_running(self) -> bool:
        """Say whether the box's first process is still there."""
        return self._pidfd >= 0 and not is_ended(self._pidfd)

    def list_processes(self) -> list[Process]:
        """Return every process of the box that has not ended."""
        found = (read_process(pid) for pid in self.groups.pids())
        return [process for process in found if process is not None]

    def kill(self, choose: Callable[[list[Process]], Iterable[int]]) -> bool:
        """Kill what `choose` picks until it picks nothing more; False when that does not come about.

        After the first round the box is held still for the choice, so nothing forks its way out; not for
        those that were told before, which need to run to end.
        """
        give_up = time.monotonic() + _KILL_SECONDS
        told: set[tuple[int, int]] = set()
        rounds = 0
        while time.monotonic() < give_up:
            chosen = self._choose(choose)
            if not chosen:
                return True
            if chosen - told:
                rounds += 1
                if rounds > _ROUNDS_BEFORE_FREEZING:
                    with self.groups.frozen():
                        chosen = self._choose(choose)
                        self._kill_each(chosen)
                else:
                    self._kill_each(chosen)
                told |= chosen
            time.sleep(_PAUSE_SECONDS)
        return False

    def _choose(self, choose: Callable[[list[Process]], Iterable[int]]) -> set[tuple[int, int]]:
        """Return what is chosen, each with when it started: numbers are used again."""
        present = self.list_processes()
        started = {process.pid: process.started for process in present}
        return {(pid, started[pid]) for pid in choose(present) if pid in started}

    def _kill_each(self, chosen: Iterable[tuple[int, int]]) -> None:
        for pid, _ in chosen:
            self._kill_one(pid)

    def kill_all(self) -> None:
        """Kill the box's first process, and with it everything in the box."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _kill_one(self, pid: int) -> None:
        """Kill a process if it belongs to the box at that moment: numbers are used again."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if self.container_id in Path(f"/proc/{pid}/cgroup").read_text("utf-8"):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            pass  # it has ended
        finally:
            os.close(handle)

    def close(self) -> None:
        """Give back what is held; the box is not touched."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


def is_ended(pidfd: int) -> bool:
    """Say whether a process that is held has ended."""
    import select

    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def open_host_view(container_id: str, init: int) -> HostView | None:
    """Return the view on a started container; None unless this is root on the engine's own machine."""
    if sys.platform != "linux" or os.geteuid() != 0 or init <= 0:
        return None
    try:
        pidfd = os.pidfd_open(init)
    except OSError:
        return None
    groups = find_groups(init, container_id)
    if groups is None:
        os.close(pidfd)
        return None
    return HostView(container_id=container_id, init=init, groups=groups, pidfd=pidfd)


def read_tick() -> int:
    """Return the present time in clock ticks since boot, as /proc counts them."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
