"""Limits that no kernel group holds for the box, looked at once a second by a process of it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as in init.py
import os
import time

from castform_sandbox_bubblewrap.inside import files, kernel, tree

_PERIOD_SECONDS = 1.0
_MEMORY, _DISK = 3, 4
_MOST_DEATHS = 3
_REASONS = {_MEMORY: "memory", _DISK: "disk"}


class Watcher:
    """Starts the watching process, and starts it again where a program of the box has killed it."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._limits: tuple[int | None, int | None] | None = None
        self._over: str | None = None
        self._deaths = 0

    def begin(self, memory_bytes: int | None, disk_bytes: int | None) -> None:
        """Watch from now on; what the disk holds by now does not count."""
        base = files.measure_disk() if disk_bytes is not None else 0
        self._limits = (memory_bytes, None if disk_bytes is None else base + disk_bytes)
        self._start()

    def note_end(self, status: int, *, expected: bool) -> None:
        """Take how the watching process ended."""
        self.pid = None
        reason = _REASONS.get(os.waitstatus_to_exitcode(status))
        if reason is not None:
            self._over = reason
        elif not expected:
            self._deaths += 1

    def pause(self) -> float | None:
        """Return the seconds until `check` has something to do; None: until something happens."""
        return _PERIOD_SECONDS if self._limits is not None and self.pid is None else None

    def check(self, *, start: bool) -> str | None:
        """Return which limit was passed, None while none was; `start` the process where it is not there."""
        if self._over is None and self._deaths >= _MOST_DEATHS:
            return "the process that watches the limits, which a program killed again and again"
        if start and self._over is None and self._limits is not None and self.pid is None:
            self._start()
        return self._over

    def _start(self) -> None:
        assert self._limits is not None
        memory, disk = self._limits
        try:
            pid = os.fork()
        except OSError:  # no process is left to have; asked again in a while
            return
        if pid != 0:
            self.pid = pid
            return
        code = 70
        try:
            os.closerange(3, 1 << 16)
            _signal.set_wakeup_fd(-1)
            kernel.set_name(b"castform-watch")
            while True:
                time.sleep(_PERIOD_SECONDS)
                if memory is not None and tree.measure_memory() > memory:
                    code = _MEMORY
                    break
                if disk is not None and files.measure_disk() > disk:
                    code = _DISK
                    break
        finally:
            os._exit(code)
