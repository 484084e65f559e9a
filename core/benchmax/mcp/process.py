"""An MCP server as a child process: its messages, its last words, and its certain end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
from asyncio.subprocess import PIPE, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmax.envs.tool_closing import see_through
from benchmax.mcp.family import MARK, kill_family, list_family, read_start

INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
"""Environment variables that every server gets; no other one of the host's, which may hold secrets."""
MAX_LINE_BYTES = 32 * 2**20
"""Of one message. More is taken for a server that runs wild."""
MAX_STRAY_LINES = 200
"""Lines on stdout that are no messages, before the server is taken for something else than one."""
KEPT_LINES = 12
KEPT_CHARS = 1_000
"""Of what the server wrote to stderr last."""
GRACE_SECONDS = 1.0
"""Between closing a server's stdin, SIGTERM and SIGKILL, each."""
LAST_WORDS_SECONDS = 0.3
"""After it is gone; a grandchild may hold its stderr open for longer."""


class ServerProcess:
    """A running server, in a process group of its own; all that it starts carries its `mark`."""

    def __init__(self, process: asyncio.subprocess.Process, exited: asyncio.Event, mark: str) -> None:
        self.exited = exited
        """Set as soon as the process itself is gone, whoever holds its pipes."""
        self.fault: str | None = None
        """What it did that no MCP server does."""
        self._process = process
        self._mark = mark
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._stray = 0
        self._stopped = False
        self._silent = asyncio.Event()
        """Set when its stdout has ended."""
        self._spoken = asyncio.Event()
        """Set when its stderr has ended."""

    @property
    def pid(self) -> int:
        """Process id, which is also its group's."""
        return self._process.pid

    def describe_end(self) -> str:
        """Return how it ended and what it wrote to stderr last."""
        code = self._process.returncode
        if code is None or self._stopped:
            ended = "it was running"
        elif code < 0:
            ended = f"killed by {signal.Signals(-code).name}"
        else:
            ended = f"exit code {code}"
        words = "\n".join(self._lines)[-KEPT_CHARS:].strip()
        seen = f"its stderr ends: {words}" if words else "its stderr is empty"
        return "; ".join([ended, *([self.fault] if self.fault else []), seen])

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Any, Any]]:  # Any: the package's streams
        """Yield (incoming, outgoing) message streams; leaving stops the process and all its children.

        Who is cancelled while leaving waits for that, too.
        """
        import anyio

        incoming_end, incoming = anyio.create_memory_object_stream[Any](0)
        outgoing, outgoing_end = anyio.create_memory_object_stream[Any](0)
        pumps = [
            asyncio.create_task(self._read_messages(incoming_end)),
            asyncio.create_task(self._write_messages(outgoing_end)),
            asyncio.create_task(self._read_words()),
            asyncio.create_task(self._watch_exit(incoming_end)),
        ]
        try:
            yield incoming, outgoing
        finally:
            try:
                await see_through(self._leave())
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                for stream in (incoming_end, incoming, outgoing, outgoing_end):
                    stream.close()

    async def _leave(self) -> None:
        try:
            await self.settle()
        finally:
            await self.stop()

    async def settle(self) -> None:
        """Give a process that is just ending the time to leave its exit code and its last words."""
        if self._silent.is_set() or self.exited.is_set():
            await _wait(self.exited, GRACE_SECONDS)
            await _wait(self._spoken, LAST_WORDS_SECONDS)

    async def stop(self) -> None:
        """End the process: close its stdin, then SIGTERM, then SIGKILL to its whole group.

        On Linux to all that it started, also in sessions of their own.
        """
        self._stopped = not self.exited.is_set()
        family: dict[int, str] = {}
        try:
            family = await asyncio.to_thread(self._list_family)  # as long as they have a parent
            if self._process.stdin is not None:
                self._process.stdin.close()
            if not await _wait(self.exited, GRACE_SECONDS):
                self._signal(signal.SIGTERM)
                await _wait(self.exited, GRACE_SECONDS)
        finally:
            self._signal(signal.SIGKILL)  # also what it left behind when it ended by itself
            try:
                await asyncio.to_thread(kill_family, self._mark, family)
                await _wait(self.exited, GRACE_SECONDS)
            finally:
                transport = getattr(self._process, "_transport", None)
                if transport is not None:
                    transport.close()  # a grandchild that cannot be killed may hold the pipes open

    def _list_family(self) -> dict[int, str]:
        started = None if self.exited.is_set() else read_start(self.pid)  # it may hide the mark
        return list_family(self._mark, {} if started is None else {self.pid: started})

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _read_messages(self, incoming: Any) -> None:  # Any: the package's stream
        from mcp.shared.message import SessionMessage

        stdout = self._process.stdout
        assert stdout is not None
        try:
            while True:
                try:
                    line = await stdout.readline()
                except ValueError:
                    self.fault = f"it sent a line of more than {MAX_LINE_BYTES:,} bytes"
                    break
                if not line:
                    self._silent.set()
                    break
                message = _read_message(line)
                if message is not None:
                    await incoming.send(SessionMessage(message))
                elif line.strip() and self._is_too_much(line):
                    break
        finally:
            incoming.close()  # whoever waits for an answer learns that there will be none

    def _is_too_much(self, line: bytes) -> bool:
        """Note a line that is no message: servers print a banner now and then, but not without end."""
        self._stray += 1
        self.fault = (
            f"its stdout has lines that are no messages, e.g. {line[:80].decode(errors='replace').strip()!r}"
        )
        return self._stray > MAX_STRAY_LINES

    async def _write_messages(self, outgoing: Any) -> None:  # Any: the package's stream
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # the server is gone, which the reader sees too
            async for item in outgoing:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()

    async def _read_words(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        rest = b""
        while chunk := await stderr.read(65_536):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-KEPT_CHARS:]
            self._lines.extend(line[-KEPT_CHARS:].decode(errors="replace") for line in lines[-KEPT_LINES:])
        if rest:
            self._lines.append(rest.decode(errors="replace"))
        self._spoken.set()

    async def _watch_exit(self, incoming: Any) -> None:  # Any: the package's stream
        await self.exited.wait()
        await asyncio.sleep(GRACE_SECONDS)  # what it said before it went is still on its way
        incoming.close()


def _read_message(line: bytes) -> Any:  # Any: the package's messages
    """Return the message of a line; None where it is none.

    Half a character, which servers leave where they cut a text, becomes a question mark: JSON can
    write it, and the package reads no message that does.
    """
    from mcp_types import jsonrpc_message_adapter

    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        value = json.loads(line.decode("utf-8", "replace"))
        whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return jsonrpc_message_adapter.validate_json(whole, by_name=False)
    except (ValueError, RecursionError):
        return None


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event is set within so many seconds."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def spawn_server(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str | None, passed: Sequence[str] = ()
) -> ServerProcess:
    """Start a server. OSError when there is no such program or folder, or it may not be run."""
    exited = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Protocol(SubprocessStreamProtocol):
        def process_exited(self) -> None:
            super().process_exited()
            exited.set()

    mark = secrets.token_hex(8)
    inherited = {name: os.environ[name] for name in (*INHERITED, *passed) if name in os.environ}
    transport, protocol = await loop.subprocess_exec(
        lambda: Protocol(limit=MAX_LINE_BYTES, loop=loop),
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={**inherited, **env, MARK: mark},
        cwd=cwd,
        start_new_session=True,
    )
    return ServerProcess(asyncio.subprocess.Process(transport, protocol, loop), exited, mark)
