"""What a worker's environment prints: read all the time, kept in part, shown at a bounded rate."""

from __future__ import annotations

import logging

from castform.safe_text import safe_line

TAIL_BYTES = 8192
TAIL_LINES = 5
MAX_LINE_CHARACTERS = 500
LINES_A_SECOND = 50
CRASH = "Fatal Python error: "
"""What faulthandler begins with."""

logger = logging.getLogger(__name__)


class OutputCapture:
    """Takes the bytes of stdout and stderr together; whole lines become log records."""

    def __init__(self, name: str, *, limit_bytes: int, limit_seconds: float) -> None:
        self._name = name
        self._limit_bytes = limit_bytes
        self._limit_seconds = limit_seconds
        self._tail = bytearray()
        self._line = bytearray()
        self._window_began = 0.0
        self._window_bytes = 0
        self._second = -1
        self._shown = 0
        self._left_out = 0

    def add(self, data: bytes, now: float) -> bool:
        """Take what was written by `now` (seconds of any clock); False when that is a flood."""
        self._tail += data[-TAIL_BYTES:]
        del self._tail[:-TAIL_BYTES]
        if now - self._window_began >= self._limit_seconds:
            self._window_began, self._window_bytes = now, 0
        self._window_bytes += len(data)
        self._show(data, int(now))
        return self._window_bytes <= self._limit_bytes

    def last_lines(self) -> str:
        """Return the last lines that say something, on one line and safe to print.

        Of a crash of the interpreter, whose account begins with what matters, the first ones.
        """
        text = self._tail.decode("utf-8", "replace")
        crash = text.rfind(CRASH)
        lines = [line.strip() for line in text[max(crash, 0) :].splitlines() if line.strip()]
        lines = lines[-TAIL_LINES:] if crash < 0 else lines[:TAIL_LINES]
        return " | ".join(safe_line(line[:MAX_LINE_CHARACTERS]) for line in lines)

    def _show(self, data: bytes, second: int) -> None:
        if second != self._second:
            self._second, self._shown = second, 0
        if self._shown >= LINES_A_SECOND:  # the cheap way: a flood is not taken apart
            self._left_out += data.count(b"\n")
            self._line = bytearray(data.rpartition(b"\n")[2][:MAX_LINE_CHARACTERS])
            return
        *lines, rest = bytes(self._line + data).split(b"\n")
        self._line = bytearray(rest[:MAX_LINE_CHARACTERS])
        for line in lines:
            if self._shown >= LINES_A_SECOND:
                self._left_out += 1
                continue
            self._shown += 1
            left_out, self._left_out = self._left_out, 0
            note = f" ({left_out} lines before it were left out)" if left_out else ""
            text = line[:MAX_LINE_CHARACTERS].decode("utf-8", "replace")
            logger.info("%s: %s%s", self._name, safe_line(text.rstrip("\r")), note)
