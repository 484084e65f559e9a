"""Having a box's first process start something, and seeing it to its end."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from castform.sandbox.contract import MAX_OUTPUT_BYTES, ExecResult
from castform.sandbox.errors import SandboxError, SandboxFileError, SandboxGoneError
from castform.sandbox.teardown import finish
from castform_sandbox_bubblewrap.channel import Channel, Order, Reply
from castform_sandbox_bubblewrap.groups import (
    count_out_of_memory,
    raise_process_limit,
    restore_process_limit,
    wait_until_still,
)
from castform_sandbox_bubblewrap.streams import InputStream, OutputStream

NOT_STARTED = 126
_GRACE_SECONDS = 120.0
"""Beyond a command's own time, or for one answer: then the first process is taken for dead."""
_FILE_SECONDS = 600.0
_SPARE_PROCESSES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a program ended, and what the box said of it."""

    result: ExecResult
    started: bool
    timed_out: bool
    refused: str
    """Why it could not run as the user that was asked for; else empty."""


class Runner:
    """Runs programs and file calls of one box."""

    def __init__(self, channel: Channel, rlimits: Mapping[str, int], groups: Sequence[Path] = ()) -> None:
        self._channel = channel
        self._groups = groups
        self._rlimits = dict(rlimits)
        self._left: set[OutputStream] = set()
        self._holding = asyncio.Lock()

    async def run(
        self,
        order: Order,
        *,
        stdin: bytes | int = b"",
        stdout: int | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        timeout_seconds: float | None = None,
    ) -> Ended:
        """Run to the end of the first process and return how it ended.

        `stdin`, `stdout`: a descriptor instead of bytes; stdout's is closed here once the box has it.
        Cancelled: it is killed with its descendants. A program that could not be started is exit code 126.
        """
        began, killed = time.monotonic(), count_out_of_memory(self._groups)
        with (
            contextlib.ExitStack() as always,
            contextlib.ExitStack() as failed,
            contextlib.ExitStack() as given,
        ):
            if stdout is not None:
                given.callback(os.close, stdout)
            feeder = InputStream(stdin) if isinstance(stdin, bytes) and stdin else None
            if feeder is not None:
                always.callback(feeder.close)
            out = OutputStream(max_output_bytes if stdout is None else 0)
            failed.callback(out.close)
            err = OutputStream(max_output_bytes)
            failed.callback(err.close)
            number = self._channel.next_number()
            always.callback(self._channel.forget, number)
            source = feeder.end if feeder is not None else stdin if isinstance(stdin, int) else None
            waiting = await self._post(
                {**order, "rlimits": self._rlimits, "timeout": timeout_seconds},
                source,
                out.start if stdout is None else stdout,
                err.start,
                number,
            )
            for stream in (out, err):
                stream.close_start()
            if feeder is not None:
                feeder.close_end()
            given.close()
            reply = await self._wait(waiting, number, timeout_seconds)
            failed.pop_all()
        for stream in (out, err):
            stream.let_go()
        self._left = {stream for stream in (*self._left, out, err) if not stream.closed}
        started = reply.kind == "exit"
        code = reply.number if started and reply.number is not None else NOT_STARTED
        _, timed_out, refused = (*reply.words.split(" ", 2), "", "")[:3] if started else ("", "0", "")
        words = err.buffer.tail if started else f"castform: cannot start: {reply.words[:500]}\n".encode()
        result = ExecResult(
            exit_code=code,
            stdout=out.buffer.tail,
            stderr=words,
            stdout_dropped=out.buffer.dropped,
            stderr_dropped=err.buffer.dropped,
            seconds=time.monotonic() - began,
            out_of_memory=count_out_of_memory(self._groups) > killed,
        )
        return Ended(result=result, started=started, timed_out=timed_out == "1", refused=refused[:500])

    async def call_files(
        self,
        call: str,
        arguments: Order,
        *,
        stdin: bytes | int = b"",
        stdout: int | None = None,
        max_output_bytes: int = 4096,
    ) -> ExecResult:
        """Do one of inside/files.py's calls. SandboxFileError with its words where it refuses.

        Where a program of the box has all the processes that it may have, it is held still for it.
        """
        order = {"call": call, "arguments": dict(arguments)}
        with contextlib.ExitStack() as stack:
            if stdout is not None:
                stack.callback(os.close, stdout)
            ended = await self._run_files(order, stdin, stdout, max_output_bytes)
            if not ended.started:
                async with self._held_still():
                    ended = await self._run_files(order, stdin, stdout, max_output_bytes)
        result = ended.result
        if result.exit_code == 0 and not ended.timed_out:
            return result
        words = result.error_text.strip()[:2000]
        if not ended.started:
            raise SandboxError(
                f"the sandbox cannot start a process for its files: {words}",
                hint="end what runs in it first: end_processes()",
            )
        raise SandboxFileError(words or f"{call} in the sandbox was killed, exit code {result.exit_code}")

    async def _run_files(
        self, order: Order, stdin: bytes | int, stdout: int | None, max_output_bytes: int
    ) -> Ended:
        return await self.run(
            order,
            stdin=stdin,
            stdout=None if stdout is None else os.dup(stdout),  # run closes the one it is given
            max_output_bytes=max_output_bytes,
            timeout_seconds=_FILE_SECONDS,
        )

    @contextlib.asynccontextmanager
    async def _held_still(self) -> AsyncIterator[None]:
        """Stop all that runs in the box for a block, and let a few processes more in."""
        async with self._holding:
            await self.ask({"do": "hold"})
            limits: dict[Path, str] = {}
            try:
                await asyncio.to_thread(wait_until_still, self._groups)
                limits = raise_process_limit(self._groups, _SPARE_PROCESSES)
                yield
            finally:
                restore_process_limit(limits)
                await finish(self.ask({"do": "let go"}))

    async def ask(self, order: Order) -> Reply:
        """Return the first process's answer to an order that starts nothing."""
        number = self._channel.next_number()
        waiting = await self._channel.post(order, number=number)
        try:
            return await self._within(waiting, _GRACE_SECONDS)
        finally:
            self._channel.forget(number)

    def close(self) -> None:
        """Stop reading what was left behind."""
        for stream in self._left:
            stream.close()
        self._left.clear()

    async def _post(
        self, body: Order, source: int | None, out: int, err: int, number: int
    ) -> asyncio.Future[Reply]:
        paper = os.memfd_create("order", os.MFD_CLOEXEC)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if source is None else None
        try:
            with os.fdopen(os.dup(paper), "wb") as file:
                marshal.dump(dict(body), file)
            first = source if nothing is None else nothing
            assert first is not None  # one of the two is there
            return await self._channel.post({"do": "start"}, [paper, first, out, err], number=number)
        finally:
            os.close(paper)
            if nothing is not None:
                os.close(nothing)

    async def _wait(
        self, waiting: asyncio.Future[Reply], number: int, timeout_seconds: float | None
    ) -> Reply:
        limit = None if timeout_seconds is None else timeout_seconds + _GRACE_SECONDS
        try:
            return await self._within(waiting, limit)
        except asyncio.CancelledError:
            with contextlib.suppress(SandboxGoneError):
                await finish(self.ask({"do": "kill", "which": number}))
            raise

    async def _within(self, waiting: asyncio.Future[Reply], seconds: float | None) -> Reply:
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(waiting)
        except TimeoutError:
            self._channel.close()  # which kills it and all there is
            raise SandboxGoneError("the sandbox's first process does not answer") from None
