"""The host's ends of a command's streams, read and written as the event loop finds time."""

from __future__ import annotations

import asyncio
import os

from castform.sandbox.output import TailBuffer

_CHUNK = 1 << 16
_MOST_LEFT_IN_PIPE = 1 << 20


class OutputStream:
    """Reads a pipe to its end. What comes after `let_go` is thrown away, so that nobody who writes is held up."""

    def __init__(self, limit: int) -> None:
        """`limit` of bytes that are kept."""
        self.buffer = TailBuffer(limit)
        self._end, self.start = os.pipe2(os.O_CLOEXEC)
        """`start`: the writing end, to be closed by `close_start` once the box has it."""
        os.set_blocking(self._end, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._end, self._read)
        self._keeps = True
        self._closed = False

    def close_start(self) -> None:
        if self.start >= 0:
            os.close(self.start)
            self.start = -1

    @property
    def closed(self) -> bool:
        return self._closed

    def let_go(self) -> None:
        """Take what the pipe holds by now, and keep nothing of what comes later."""
        left = _MOST_LEFT_IN_PIPE
        while left > 0 and not self._closed:
            size = self._read()
            if size == 0:
                break
            left -= size
        self._keeps = False

    def close(self) -> None:
        self.close_start()
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._end)
            os.close(self._end)

    def _read(self) -> int:
        try:
            data = os.read(self._end, _CHUNK)
        except BlockingIOError:
            return 0
        if not data:
            self.close()
        elif self._keeps:
            self.buffer.add(data)
        return len(data)


class InputStream:
    """Writes bytes into a pipe; stops where nobody reads."""

    def __init__(self, data: bytes) -> None:
        self.end, self._start = os.pipe2(os.O_CLOEXEC)
        """`end`: the reading end, to be closed by `close_end` once the box has it."""
        os.set_blocking(self._start, False)
        self._rest = memoryview(data)
        self._loop = asyncio.get_running_loop()
        self._loop.add_writer(self._start, self._write)
        self._closed = False

    def close_end(self) -> None:
        if self.end >= 0:
            os.close(self.end)
            self.end = -1

    def close(self) -> None:
        self.close_end()
        if not self._closed:
            self._closed = True
            self._loop.remove_writer(self._start)
            os.close(self._start)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._start, self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = self._rest[:0]
        if not self._rest:
            self.close()
