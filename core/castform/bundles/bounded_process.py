"""Run a program that may crash, hang or flood, and come back in any case."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_CHUNK = 1 << 16
_POLL_SECONDS = 0.1
"""How long an exit can go unnoticed while something else holds the output open."""


def environ_without_python() -> dict[str, str]:
    """Return this process's environment variables for another Python, which has a path and options of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a program ended, and the end of what it wrote."""

    ending: Literal["exit", "timeout", "flood"]
    code: int
    """Exit code; negative for a signal."""
    output: str
    """The last of stdout and stderr together."""

    def describe(self) -> str:
        """Return how it ended as the rest of a sentence that starts with the program."""
        if self.ending == "timeout":
            return "did not end in time and was stopped"
        if self.ending == "flood":
            return "wrote too much and was stopped"
        if self.code < 0:
            with suppress(ValueError):
                return f"was ended by {signal.Signals(-self.code).name}"
        return f"ended with exit code {self.code}"


def run_bounded(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_seconds: float,
    max_output_bytes: int = 32 << 20,
    tail_bytes: int = 8 << 10,
) -> Finished:
    """Run a command in a session of its own; at the end everything it started there is killed."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        ending, tail = _follow(process, time.monotonic() + timeout_seconds, max_output_bytes, tail_bytes)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return Finished(ending=ending, code=code, output=tail)


def _follow(
    process: subprocess.Popen[bytes], deadline: float, max_bytes: int, tail_bytes: int
) -> tuple[Literal["exit", "timeout", "flood"], str]:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    os.set_blocking(descriptor, False)
    kept: deque[bytes] = deque()
    seen = 0
    ending: Literal["exit", "timeout", "flood"] = "exit"
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            over = process.poll() is not None  # asked before reading: what it wrote last is still read
            wait = 0 if over else max(0.0, min(_POLL_SECONDS, deadline - time.monotonic()))
            chunk = os.read(descriptor, _CHUNK) if selector.select(wait) else None
            if chunk:
                seen += len(chunk)
                kept.append(chunk)
                while sum(map(len, kept)) - len(kept[0]) > tail_bytes:
                    kept.popleft()
            if seen > max_bytes:
                ending = "flood"
                break
            if over and not chunk:
                break
            if time.monotonic() >= deadline:
                ending = "timeout"
                break
            if chunk == b"":  # it closed its output and runs on
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
    return ending, b"".join(kept)[-tail_bytes:].decode("utf-8", "replace")
