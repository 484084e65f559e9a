"""Run a program to its end, and leave nothing of it behind however the rollout ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from benchmax.envs import RolloutFailure


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """What a program came to."""

    code: int
    """Exit code; negative for a signal."""
    output: str
    errors: str


async def run_program(
    command: Sequence[str], *, text: str, env: Mapping[str, str], timeout_seconds: float
) -> Finished:
    """Give the program `text` on stdin and return what it wrote.

    It runs in a session of its own. When this function ends, by a timeout or a
    cancellation too, everything that the program started there is killed.
    RolloutFailure `harness_timeout` after `timeout_seconds`.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            output, errors = await process.communicate(text.encode())
    except TimeoutError as error:
        raise RolloutFailure(
            "harness_timeout", f"the agent took longer than {timeout_seconds:g} seconds"
        ) from error
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Finished(
        code=process.returncode or 0,
        output=output.decode("utf-8", "replace"),
        errors=errors.decode("utf-8", "replace"),
    )
