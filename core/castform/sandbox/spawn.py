"""Run a program of this machine for a box: pipes are read while it runs, and nobody waits for a child.

Shared by providers whose commands are local processes. What kills a whole tree differs between
them, so it comes in as a function.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from castform.sandbox.contract import MAX_OUTPUT_BYTES, ExecResult
from castform.sandbox.errors import ExecTimeoutError
from castform.sandbox.output import TailBuffer
from castform.sandbox.teardown import finish

_CHUNK = 1 << 16
_MOST_LEFT_IN_PIPE = 1 << 20
"""What a pipe can hold after its writer has gone; the kernel allows no larger one to a plain user."""

KillTree = Callable[[int], Awaitable[None]]
"""Takes the id of the first process, which is not reaped yet, and ends it with all its descendants."""


class Leftovers:
    """Output that outlives its command: read and thrown away, so that no child dies of a closed pipe."""

    def __init__(self) -> None:
        self._pipes: set[_Pipe] = set()

    def keep(self, pipe: _Pipe) -> None:
        pipe.forget(self._pipes.discard)
        self._pipes.add(pipe)

    def close(self) -> None:
        """Stop reading."""
        for pipe in list(self._pipes):
            pipe.close()
        self._pipes.clear()


class _Pipe:
    """The reading end of one stream of a process."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self.buffer = TailBuffer(limit)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._forgotten: Callable[[_Pipe], None] | None = None
        self.closed = False
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self.read)

    def read(self) -> int:
        """Take one chunk; return its size, 0 where nothing is there or nothing comes any more."""
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.close()
            if self._forgotten is not None:
                self._forgotten(self)
        elif self._forgotten is None:
            self.buffer.add(data)
        return len(data)

    def drain(self) -> None:
        """Take what the pipe holds, also where another process goes on writing."""
        left = _MOST_LEFT_IN_PIPE
        while left > 0 and not self.closed:
            size = self.read()
            if size == 0:
                break
            left -= size

    def forget(self, at_end: Callable[[_Pipe], None]) -> None:
        self._forgotten = at_end

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)


class _Feeder:
    """The writing end of a process's stdin."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self._descriptor = descriptor
        self._rest = memoryview(data)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        os.set_blocking(descriptor, False)
        self._loop.add_writer(descriptor, self._write)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no further
            self.close()
            return
        if not self._rest:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)


async def run_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    kill: KillTree,
    cwd: str | None = None,
    stdin: bytes = b"",
    timeout_seconds: float | None = None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    pass_fds: Sequence[int] = (),
    leftovers: Leftovers | None = None,
) -> ExecResult:
    """Run a program in a session of its own to the end of its first process.

    `env` is all of its environment. Output that children go on writing is read by `leftovers`, or
    their pipe is closed. Raises OSError when the program cannot be started, ExecTimeoutError after
    `timeout_seconds`; then and when it is cancelled, `kill` has ended the tree before it returns.
    """
    began = time.monotonic()
    process = subprocess.Popen(  # noqa: ASYNC220 - takes a millisecond; what follows does not block
        list(command),
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
    )
    pipes: list[_Pipe] = []
    feeder: _Feeder | None = None
    timed_out = False
    try:
        try:
            for stream in (process.stdout, process.stderr):
                pipes.append(_take(stream, max_output_bytes))
            if process.stdin is not None:
                feeder = _Feeder(_detach(process.stdin), stdin)
        except BaseException:  # no descriptor is left; the program has started all the same
            await finish(_end(process.pid, kill))
            raise
        try:
            async with asyncio.timeout(timeout_seconds):
                await wait_for_exit(process.pid)
        except TimeoutError:
            timed_out = True
            await finish(_end(process.pid, kill))
        except BaseException:
            await finish(_end(process.pid, kill))
            raise
    finally:
        if feeder is not None:
            feeder.close()
        code = process.wait()  # it has ended, so this does not wait
        for pipe in pipes:
            pipe.drain()
            if leftovers is not None and not timed_out and not pipe.closed:
                leftovers.keep(pipe)
            else:
                pipe.close()
    out, err = (pipe.buffer for pipe in pipes)
    result = ExecResult(
        exit_code=128 - code if code < 0 else code,
        stdout=out.tail,
        stderr=err.tail,
        stdout_dropped=out.dropped,
        stderr_dropped=err.dropped,
        seconds=time.monotonic() - began,
    )
    if timed_out:
        raise make_timeout(command, timeout_seconds, result)
    return result


def make_timeout(
    command: Sequence[str], timeout_seconds: float | None, result: ExecResult
) -> ExecTimeoutError:
    """Return the error of a command that took too long."""
    name = command[0] if command else "the command"
    return ExecTimeoutError(
        f"{name!r} was not done after {timeout_seconds or 0:g} s and was killed with all it had started",
        result=result,
        hint="give the command more timeout_seconds, or make it do less",
    )


async def wait_for_exit(pid: int) -> None:
    """Return when a child process has ended. It is not reaped; cancelled at any time."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def note_end() -> None:
        if not ended.done():
            ended.set_result(None)

    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        loop.add_reader(descriptor, note_end)
        try:
            await ended
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        return

    def watch() -> None:  # pragma: no cover - systems without process descriptors
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(note_end)

    threading.Thread(target=watch, daemon=True).start()
    await ended


async def _end(pid: int, kill: KillTree) -> None:
    try:
        await kill(pid)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # not reaped yet, so the id is its own
        await wait_for_exit(pid)


def _take(stream: object, limit: int) -> _Pipe:
    return _Pipe(_detach(stream), limit)


def _detach(stream: object) -> int:
    """Return a descriptor of our own and let the file object, which buffers, go."""
    descriptor = os.dup(stream.fileno())  # type: ignore[attr-defined]  # a pipe of Popen
    stream.close()  # type: ignore[attr-defined]  # as above
    return descriptor
