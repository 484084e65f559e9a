"""A vLLM server that castform started: its process, its log and its certain end."""

from __future__ import annotations

import atexit
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from castform.errors import MissingError, RunFailedError, UsageError
from castform_trainer.engines import vllm_guard

GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL. The server holds nothing that a kill could damage."""

KILLED_SECONDS = 5.0
"""For a killed process to be gone; one that waits for a disk may take longer, and nothing helps then."""

LOG_LINES = 15

_FAULT = re.compile(r"\b[A-Za-z_.]*(?:Error|Exception|Interrupt)\b: .+|\bKilled\b|No module named .+")
_ECHOES = ("See root cause above", "Failed core proc", "WorkerProc initialization failed")
"""Faults that only repeat an earlier one."""


def reserve_port(port: int | None) -> tuple[socket.socket, int]:
    """Bind a loopback port without listening, so that nobody else is given it meanwhile.

    vLLM can still bind it (both ends set SO_REUSEADDR and this one never listens). Close the
    socket once the server answers. Raises UsageError when a port that was asked for is taken.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if port is None:
        holder.bind(("127.0.0.1", 0))
        port = int(holder.getsockname()[1])
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return holder, port
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        holder.bind(("127.0.0.1", port))
    except OSError as error:
        holder.close()
        raise UsageError(
            f"port {port} on 127.0.0.1 is in use ({error.strerror})",
            hint="choose another engine.options.port, or leave it out and castform finds a free one; "
            "engine.url joins a server that runs already",
        ) from error
    return holder, port


def make_secret() -> str:
    """Return a fresh key for one server."""
    return secrets.token_urlsafe(24)


class ServerProcess:
    """A started server. `stop` ends its whole process group; so do our exit and our death."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.log_path = log_path
        self.pid = process.pid
        """Leader of the server's process group."""
        self._process = process
        self._lock = threading.Lock()
        atexit.register(self.stop)

    def is_running(self) -> bool:
        """Say whether the server lives. Does not reap it: its group id must stay ours until `stop`."""
        if self._process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def stop(self) -> None:
        """End the server and everything it started; returns when they are gone. Twice is fine."""
        with self._lock:
            if self._process.returncode is not None:
                return
            assert self._process.stdin is not None  # started with a pipe
            with suppress(OSError):
                self._process.stdin.close()  # the guard sees it and ends the group
            deadline = time.monotonic() + GRACE_SECONDS + 2.0
            while self.is_running() and time.monotonic() < deadline:
                time.sleep(0.02)
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
            while _is_group_alive(self.pid) and time.monotonic() < deadline + KILLED_SECONDS:
                time.sleep(0.02)
            atexit.unregister(self.stop)

    def describe_end(self) -> str:
        """Return the faults that the log names, then its last lines."""
        return describe_log(self.log_path)


def start_process(
    command: Sequence[str], environment: Mapping[str, str], *, folder: Path, log_path: Path
) -> ServerProcess:
    """Start a server under the guard, with `folder` (an empty one) as its working directory.

    Raises MissingError when the command cannot be started at all.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    guarded = [sys.executable, "-I", vllm_guard.__file__, str(GRACE_SECONDS), *command]
    try:
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                guarded,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
    except OSError as error:
        raise MissingError(f"cannot start {command[0]}: {error.strerror}") from error
    return ServerProcess(process, log_path)


def describe_log(log_path: Path) -> str:
    """Return what went wrong by a server's log: the first faults it names, then its last lines."""
    try:
        lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return f"(its log {log_path} cannot be read: {error.strerror})"
    lines = [line.rstrip() for line in lines if line.strip()]
    faults = [match.group(0) for line in lines if (match := _FAULT.search(line))]
    causes = list(dict.fromkeys(f for f in faults if not any(echo in f for echo in _ECHOES)))[:3]
    parts = [f"  {cause[:400]}" for cause in causes]
    parts += [f"last lines of {log_path}:", *(f"  {line[:300]}" for line in lines[-LOG_LINES:])]
    return "\n".join(parts)


def _is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def make_start_failure(log_path: Path, reason: str) -> RunFailedError:
    """Return the error for a server that did not come up."""
    text = describe_log(log_path)
    hint = None
    if "No module named 'vllm'" in text or "No module named vllm" in text:
        hint = (
            "point engine.options.python or CASTFORM_VLLM_PYTHON at the python of an environment "
            "with vllm (docs/engines.md)"
        )
    elif "engine initialization" in text and "memory" in text.lower():
        hint = "lower engine.options.gpu_memory_utilization, kv_cache_gib or max_model_len"
    return RunFailedError(f"the vLLM server {reason}\n{text}", hint=hint)
