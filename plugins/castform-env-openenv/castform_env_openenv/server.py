"""Start an OpenEnv server, wait until it answers, and end it for certain."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from benchmax.envs import RolloutFailure
from castform_env_openenv.config import PORT

GUARD = Path(__file__).with_name("guard.py")
POLL_SECONDS = 0.05
STOP_SECONDS = 10.0
TAIL_LINES = 20
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


@asynccontextmanager
async def run_server(
    command: Sequence[str], *, extra_env: Mapping[str, str], start_seconds: float
) -> AsyncIterator[str]:
    """Start a server on a free port and give its URL; it is gone afterwards, with all it started.

    It ends too when this process is killed. RolloutFailure (`sandbox_error`): it cannot be
    started, ends, or answers nothing in time; with the end of what it wrote.
    """
    port = find_free_port()
    env = {name: value for name, value in os.environ.items() if not _SECRET.search(name)}
    env |= {name: value.replace(PORT, str(port)) for name, value in extra_env.items()}
    words = [word.replace(PORT, str(port)) for word in command]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", str(GUARD), *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    drain = asyncio.create_task(_drain(process, tail))
    try:
        url = f"http://127.0.0.1:{port}"
        await _wait_until_ready(url, process, tail, words[0], start_seconds)
        yield url
    finally:
        await asyncio.shield(_stop(process, drain))


async def _wait_until_ready(
    url: str, process: asyncio.subprocess.Process, tail: deque[str], name: str, seconds: float
) -> None:
    from aiohttp import ClientError, ClientSession, ClientTimeout

    deadline = asyncio.get_running_loop().time() + seconds
    async with ClientSession(timeout=ClientTimeout(total=5.0)) as http:
        while True:
            if process.returncode is not None:
                raise RolloutFailure(
                    "sandbox_error", f"{name} ended with code {process.returncode}{_told(tail)}"
                )
            with suppress(ClientError, OSError, TimeoutError):
                async with http.get(f"{url}/health") as response:
                    if response.status == 200:
                        return
            if asyncio.get_running_loop().time() > deadline:
                raise RolloutFailure(
                    "sandbox_error",
                    f"{name} did not answer at {url}/health within {seconds:g} seconds{_told(tail)}",
                )
            await asyncio.sleep(POLL_SECONDS)


async def _drain(process: asyncio.subprocess.Process, tail: deque[str]) -> None:
    """Read what the server writes, so that it never waits for a reader, and keep the end of it."""
    assert process.stdout is not None
    rest = b""
    while chunk := await process.stdout.read(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        tail.extend(line.decode("utf-8", "replace")[:500] for line in lines)
        rest = rest[-500:]
    if rest:
        tail.append(rest.decode("utf-8", "replace"))


async def _stop(process: asyncio.subprocess.Process, drain: asyncio.Task[None]) -> None:
    """Let go of the guard's pipe; it ends the server, and is killed itself if it does not."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
    drain.cancel()
    with suppress(asyncio.CancelledError):
        await drain


def _told(tail: deque[str]) -> str:
    return f"; it wrote: {' | '.join(tail)}" if tail else ""


def find_free_port() -> int:
    """Return a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
