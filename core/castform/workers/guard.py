"""A small process beside a worker. It ends the programs that the environment started when the worker is gone.

The host does that for workers that it loses. When the host itself is killed, the kernel ends the workers
(`die_with_parent`), and their own programs, such as agents and servers of tools, would be left to run.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import NoReturn

from castform.workers.channel import PR_SET_PDEATHSIG

_TOLD_BY = signal.SIGTERM
"""What the kernel tells the guard the worker's end with."""


def start_guard() -> int | None:
    """Start one for this process, while it has one thread only; return its id, None where there is none.

    Not for a process whose group is shared with its host.
    """
    worker = os.getpid()
    if not sys.platform.startswith("linux") or worker != os.getpgid(0):
        return None
    guard = os.fork()
    if guard == 0:
        _guard(worker)
    return guard


def end_guard(guard: int | None) -> None:
    """End the guard of a worker that ends in order, so that nothing of it is left to a system that reaps nobody."""
    if guard is not None:
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)


def _guard(worker: int) -> NoReturn:
    """Wait for the worker's end, then end its group, this process with it."""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, {_TOLD_BY, signal.SIGINT})
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))  # the host waits for the end of the worker's pipes
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, _TOLD_BY)
        while os.getppid() == worker:
            signal.sigwait({_TOLD_BY})
        os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(1)
