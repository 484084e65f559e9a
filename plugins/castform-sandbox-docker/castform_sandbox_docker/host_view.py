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

_ROUNDS_BEFORE_FREEZING = 3
_KILL_SECONDS = 10.0


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

        After a few rounds the box is held still for the choice, so nothing forks its way out.
        """
        give_up = time.monotonic() + _KILL_SECONDS
        signalled: set[int] = set()
        rounds = 0
        while time.monotonic() < give_up:
            chosen = set(choose(self.list_processes()))
            if not chosen:
                return True
            if chosen - signalled:
                rounds += 1
            with self.groups.frozen() if rounds > _ROUNDS_BEFORE_FREEZING else contextlib.nullcontext():
                if rounds > _ROUNDS_BEFORE_FREEZING:
                    chosen = set(choose(self.list_processes()))
                for pid in chosen:
                    self._kill_one(pid)
            signalled |= chosen
            time.sleep(0.002)
        return False

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
