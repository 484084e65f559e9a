"""Run a model's function in a confined process: `run_candidate` is the one place that does.

The process gets the source and the inputs and sends values back. It is never told what the
values should be; they are compared here, as plain data of exactly the right types.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmax.envs import RolloutFailure
from benchmax.envs.loop_local import LoopLocal
from castform_env_code.candidate_child import ALLOWED_SYSCALLS, encode

CHILD = Path(__file__).with_name("candidate_child.py")
MAX_SOURCE_CHARS = 50_000
MAX_ERROR_CHARS = 300
REAP_SECONDS = 30.0
"""Longest wait for a process that was killed. Only something that it left behind could hold its pipe open."""
_CHUNK = 1 << 16

Ending = Literal["finished", "timeout", "flood"]
"""How a process came to its end: by itself, killed for its time, or for what it wrote."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one candidate may use, all its calls together."""

    cpu_seconds: int = 2
    wall_seconds: float = 20.0
    """Only a candidate that waits gets this far: one that computes runs out of processor time."""
    memory_bytes: int = 256 << 20
    output_bytes: int = 1 << 20
    """Of all results together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """What holds a candidate back, besides its limits."""

    seccomp: bool = True
    """The kernel refuses everything but computing. Linux on x86-64 and ARM64."""
    audit: bool = True
    """Python refuses what it knows of. Anywhere, and not proof against all tricks."""
    required: bool = True
    """Run nothing where seccomp cannot be had."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """One call came back with a plain value, as `encode` writes it."""

    value: Any  # JSON


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised:
    """One call raised, or returned what is no plain value."""

    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CandidateRun:
    """What became of a candidate."""

    ending: Literal["finished", "timeout", "flood", "died"]
    defined: bool
    """Whether the source ran and left a function of that name."""
    outcomes: tuple[Returned | Raised, ...]
    """Of the calls that were made, in order; fewer than asked for when it did not finish."""
    error: str | None = None
    """Why there is no function, or how the process died."""
    confined: bool = False
    """Whether the kernel held it."""


def can_confine() -> bool:
    """Whether the filter is written for this kind of machine; whether its kernel takes it shows when code runs."""
    return sys.platform == "linux" and platform.machine() in ALLOWED_SYSCALLS


_slots: LoopLocal[asyncio.Semaphore] = LoopLocal(lambda: asyncio.Semaphore(os.cpu_count() or 1))
"""As many candidates at once as there are cores, a loop."""


async def run_candidate(
    source: str,
    function: str,
    calls: Sequence[Sequence[object]],
    *,
    limits: Limits | None = None,
    layers: Layers | None = None,
) -> CandidateRun:
    """Run the source, then call its function on each list of arguments, in one process.

    Waits for a free core without blocking the event loop; whatever the candidate does, its
    process is gone afterwards. RolloutFailure: `sandbox_error` when no process could be started,
    or the kernel does not confine it and that is required; `verifier_timeout` when the machine
    was too busy to give the code its processor time.
    """
    limits, layers = limits or Limits(), layers or Layers()
    refused = refuse_long(source)
    if refused is not None:
        return refused
    sent = write_request(source, function, calls, limits=limits, layers=layers)
    async with _slots.get():
        with tempfile.TemporaryDirectory(prefix="castform-code-") as folder:
            ending, output, code = await _run_process(sent, folder, limits)
    return read_run(ending, output, code, calls=len(calls))


def refuse_long(source: str) -> CandidateRun | None:
    """Return what becomes of source that is longer than any function here; None for other source."""
    if len(source) <= MAX_SOURCE_CHARS:
        return None
    return CandidateRun(ending="finished", defined=False, outcomes=(), error="the source is too long")


def write_request(
    source: str, function: str, calls: Sequence[Sequence[object]], *, limits: Limits, layers: Layers
) -> bytes:
    """Return what `candidate_child` reads from its input."""
    request = {
        "source": source,
        "function": function,
        "calls": [[encode(argument) for argument in arguments] for arguments in calls],
        "limits": {"cpu_seconds": limits.cpu_seconds, "memory_bytes": limits.memory_bytes},
        "seccomp": layers.seccomp,
        "audit": layers.audit,
        "required": layers.required,
    }
    # surrogates that no file could hold are the candidate's own fault, and Python's to report
    return json.dumps(request).encode("ascii")


async def _run_process(request: bytes, folder: str, limits: Limits) -> tuple[Ending, bytes, int]:
    """Return how it ended, what it wrote, and the exit code; negative for a signal."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-s", "-S", "-B", "-X", "utf8", str(CHILD)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={"PYTHONHASHSEED": "0"},  # with nothing else: sets have one order, and rewards one value
            start_new_session=True,
        )
    except OSError as error:
        raise RolloutFailure("sandbox_error", f"no process for the code could be started: {error}") from error
    assert process.stdin is not None and process.stdout is not None
    ending: Ending = "finished"
    output = bytearray()
    try:
        async with asyncio.timeout(limits.wall_seconds):
            with suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(request)
                await process.stdin.drain()
                process.stdin.close()
            while chunk := await process.stdout.read(_CHUNK):
                output += chunk
                if len(output) > limits.output_bytes:
                    ending = "flood"
                    break
            else:
                await process.wait()
    except TimeoutError as error:
        if _is_computing(process.pid):
            late = f"{limits.wall_seconds:g} seconds were not enough for {limits.cpu_seconds} seconds of processor time"
            raise RolloutFailure("verifier_timeout", f"{late}: the machine is too busy") from error
        ending = "timeout"
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(_reap(process))
    return ending, bytes(output), process.returncode or 0


async def _reap(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process that was killed; asyncio notices it once its pipe is read to the end."""
    assert process.stdout is not None
    with suppress(TimeoutError):
        async with asyncio.timeout(REAP_SECONDS):
            while await process.stdout.read(_CHUNK):
                continue
            await process.wait()


def _is_computing(pid: int) -> bool:
    """Whether a process wants a processor, so that it did not get enough of one; False where nothing tells."""
    try:
        state = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return False
    return state[:1] == ["R"]


def read_run(ending: Ending, output: bytes, code: int, *, calls: int) -> CandidateRun:
    """Return what the lines say. They come from a process that the model's code ran in: believe no form.

    `code` is the process's exit code, -N where a signal N ended it.
    """
    lines = [_read_line(line) for line in output.split(b"\n")[:-1]]
    ready = lines[0] if lines else {}
    if ready.get("ready") is not True:
        how = (
            "was not ready in time" if ending == "timeout" else f"ended with code {code} before it was ready"
        )
        told = ready.get("error")
        raise RolloutFailure(
            "sandbox_error", f"no code was run: {told}" if told else f"the process for the code {how}"
        )
    confined = ready.get("confined") is True
    first = lines[1] if len(lines) > 1 else {}
    if first.get("defined") is not True:
        error = str(first.get("error") or _describe_end(ending, code))[:MAX_ERROR_CHARS]
        died: Literal["finished", "timeout", "flood", "died"] = (
            ending if first or ending != "finished" else "died"
        )
        return CandidateRun(ending=died, defined=False, outcomes=(), error=error, confined=confined)
    outcomes = tuple(_read_outcome(line) for line in lines[2 : 2 + calls])
    if len(outcomes) == calls:
        return CandidateRun(ending=ending, defined=True, outcomes=outcomes, confined=confined)
    return CandidateRun(
        ending="died" if ending == "finished" else ending,
        defined=True,
        outcomes=outcomes,
        error=_describe_end(ending, code),
        confined=confined,
    )


def _describe_end(ending: str, code: int) -> str:
    if ending == "timeout":
        return "it did not end in time"
    if ending == "flood":
        return "its results are too long"
    if code == -signal.SIGXCPU or code == -signal.SIGKILL:
        return "it ran out of processor time"
    if code < 0:
        with suppress(ValueError):
            return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


def _read_line(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _read_outcome(line: dict[str, Any]) -> Returned | Raised:
    if set(line) == {"value"}:
        return Returned(value=line["value"])
    error = line.get("error")
    return Raised(error=str(error)[:MAX_ERROR_CHARS] if isinstance(error, str) else "no result")
