"""Run a command for as long as somebody holds this process's stdin open: `python guard.py COMMAND…`.

However the one who started a server ends, killed or not, its end of the pipe closes; then the
command and everything in its session are ended. Run as a file: it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

PATIENCE_SECONDS = 3.0
"""Between asking the command to end and killing it."""


def main() -> int:
    """Run the command and return its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C is for the one who holds the pipe
        signal.signal(number, signal.SIG_IGN)
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def watch() -> None:
        while os.read(0, 4096):
            pass
        _signal(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        _signal(process.pid, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    code = process.wait()
    _signal(process.pid, signal.SIGKILL)  # what it left behind in its session
    return code if code >= 0 else 128 - code


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main())
