"""The stream of one command: started by the engine's API, read while it runs.

The engine takes over the HTTP connection and sends frames: one byte for the stream (1 stdout,
2 stderr), three of padding, four of length, then that many bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

from castform.sandbox.output import TailBuffer
from castform_sandbox_docker.engine import Engine

_READ = 1 << 18
_HEAD = 8


class StartRefusedError(Exception):
    """The engine answered the start of a command with an error of its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Attached:
    """A command's connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, max_output_bytes: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self.stdout = TailBuffer(max_output_bytes)
        self.stderr = TailBuffer(max_output_bytes)
        self._rest = b""
        self._left = 0
        self._into = self.stdout
        self.reads = 0
        """How often something came, to tell whether a stream is quiet."""

    async def read(self) -> None:
        """Read to the end of the stream."""
        while data := await self._reader.read(_READ):
            self.reads += 1
            self._take(data)

    def _take(self, data: bytes) -> None:
        view = memoryview(self._rest + data if self._rest else data)
        self._rest = b""
        while view:
            if self._left == 0:
                if len(view) < _HEAD:
                    self._rest = bytes(view)
                    return
                self._into = self.stderr if view[0] == 2 else self.stdout
                self._left = int.from_bytes(view[4:_HEAD], "big")
                view = view[_HEAD:]
                continue
            part = view[: self._left]
            self._into.add(part)
            self._left -= len(part)
            view = view[len(part) :]

    async def write(self, data: bytes) -> None:
        """Write a command's input and end it; a command that does not read it is no error."""
        with contextlib.suppress(OSError, RuntimeError):
            for start in range(0, len(data), _READ):
                self._writer.write(data[start : start + _READ])
                await self._writer.drain()
            if self._writer.can_write_eof():
                self._writer.write_eof()

    def close(self) -> None:
        """Drop the connection; the command goes on."""
        with contextlib.suppress(RuntimeError):  # its event loop is closed
            self._writer.close()


async def attach(engine: Engine, exec_id: str, *, max_output_bytes: int) -> Attached:
    """Start a command that was created and return its stream.

    Raises StartRefusedError for an answer that is an error, MissingError when the engine is gone.
    """
    reader, writer = await engine.open_stream()
    try:
        body = json.dumps({"Detach": False, "Tty": False}).encode()
        head = (
            f"POST /v{engine.api_version}/exec/{exec_id}/start HTTP/1.1\r\nHost: engine\r\n"
            "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        try:
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
        except (OSError, asyncio.IncompleteReadError) as error:
            raise engine.make_unreachable(error) from error
        status = int(answer.split(None, 2)[1])
        if status not in (101, 200):
            raise StartRefusedError(status, _read_message(await _read_rest(reader, answer)))
        return Attached(reader, writer, max_output_bytes=max_output_bytes)
    except BaseException:
        writer.close()
        raise


async def _read_rest(reader: asyncio.StreamReader, head: bytes) -> bytes:
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        return await reader.readexactly(min(length, 1 << 16))
    return b""


def _read_message(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")
