"""What becomes of a command: its result, and what the engine's words for one that did not start mean."""

from __future__ import annotations

import asyncio

from castform.sandbox.contract import ExecResult
from castform.sandbox.errors import SandboxError, UsageError
from castform_sandbox_docker.attach import Attached


def is_users_fault(words: str) -> bool:
    """Say whether the engine refused a command for the program or the folder it names.

    UsageError for a user or group that the box does not have: nothing says what the command would have done.
    """
    if any(
        reason in words
        for reason in ("unable to find user", "unable to find group", "no matching entries in")
    ):
        raise UsageError(f"the sandbox cannot run commands as that user: {words[-500:]}")
    reasons = (
        "executable file not found",
        "no such file or directory",
        "permission denied",
        "not a directory",
        "is a directory",
        "exec format error",
        "argument list too long",
        "invalid argument",
        "too many levels of symbolic links",
    )
    return any(reason in words for reason in reasons)


def make_result(
    attached: Attached | None, exit_code: int, began: float, *, out_of_memory: bool = False
) -> ExecResult:
    """Return a result with what was read so far."""
    seconds = asyncio.get_running_loop().time() - began
    if attached is None:
        return ExecResult(exit_code=exit_code, seconds=seconds)
    return ExecResult(
        exit_code=exit_code,
        stdout=attached.stdout.tail,
        stderr=attached.stderr.tail,
        stdout_dropped=attached.stdout.dropped,
        stderr_dropped=attached.stderr.dropped,
        seconds=seconds,
        out_of_memory=out_of_memory,
    )


def explain_start(result: ExecResult) -> ExecResult:
    """Return the result of a command that the engine could not start; its words stand in stdout.

    SandboxError where it is no fault of the command's, UsageError for a user that the box does not have.
    """
    words = result.stdout.decode("utf-8", "replace").strip()
    if not is_users_fault(words):
        raise SandboxError(f"the command was not started: {words[-500:]}")
    missing = "executable file not found" in words or ("exec:" in words and "no such file" in words)
    return ExecResult(exit_code=127 if missing else 126, stderr=words.encode(), seconds=result.seconds)
