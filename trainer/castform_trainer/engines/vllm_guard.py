"""Run a server so that it cannot outlive castform, not even after kill -9. Standard library only.

Started as a script, in a session of its own: `python vllm_guard.py GRACE_SECONDS COMMAND...`.
castform holds the other end of its standard input and never writes. When that end closes, on
purpose or because castform died, the server gets SIGTERM and, at the latest GRACE_SECONDS later,
the whole process group SIGKILL. When the server ends by itself, what it left behind goes too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time


def main(arguments: list[str]) -> None:
    grace_seconds, command = float(arguments[0]), arguments[1:]
    signal.signal(signal.SIGTERM, _outlive)  # a handler, as the server would inherit SIG_IGN
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_parent, args=(server, grace_seconds), daemon=True).start()
    code = server.wait()
    sys.stderr.write(f"the server process ended with code {code}\n")
    sys.stderr.flush()
    os.killpg(0, signal.SIGKILL)


def _outlive(number: int, frame: object) -> None:
    """The guard goes last, with the group."""


def _end_with_parent(server: subprocess.Popen[bytes], grace_seconds: float) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.terminate()
    deadline = time.monotonic() + grace_seconds
    while server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
