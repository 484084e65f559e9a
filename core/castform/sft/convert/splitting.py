"""The rows of one JSON array, or of JSON values over many lines, in memory for one of them.

Only strings and brackets are looked at to find where a row ends; whether it is JSON is for its reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader
from typing import NamedTuple

from benchmax.sft.limits import MAX_LINE_BYTES
from benchmax.sft.lines import Line
from castform.sft.convert.unpacking import BLOCK_BYTES

SPACE = b" \t\r\n"
UNFINISHED = "the array has no end: the file looks cut off"
UNENDING = (
    "the row that starts here does not end: a bracket or quote is missing in it, or the file is cut off; "
    "rows behind it cannot be told apart"
)
_TOKEN = re.compile(rb'["\[\]{},]')
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


class Piece(NamedTuple):
    """A row before it is decoded."""

    line: Line
    """Its first line in the file, and its bytes as far as a row is looked at."""
    fault: str | None = None
    """What is wrong with where it stands."""


class ValueSplitter:
    """Splits a stream at the commas of its array, or (`is_array` false) behind each value.

    `ended_with_comma`: a comma stood behind the last row of the array.
    """

    def __init__(self, stream: BufferedReader, *, is_array: bool) -> None:
        self._stream = stream
        self._is_array = is_array
        self._line = 1
        self._start_line = 1
        self._kept = bytearray()
        self._size = 0
        self._commas = 0
        self.ended_with_comma = False

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows. The last one has a fault when the array does not end."""
        depth, in_string, is_over = 0, False, False
        base = 1 if self._is_array else 0
        data = b""
        while block := self._stream.read1(BLOCK_BYTES):
            data += block
            place = start = 0
            while True:
                if in_string:
                    rest = _REST_OF_STRING.match(data, place)
                    assert rest is not None
                    place = rest.end()
                    if place == len(data) or data[place] != 0x22:  # the rest, or a lone backslash, waits
                        break
                    place, in_string = place + 1, False
                token = _TOKEN.search(data, place)
                if token is None:
                    place = len(data)
                    break
                mark, place = token[0], token.end()
                if is_over:
                    continue
                if mark == b'"':
                    in_string = True
                elif mark in b"[{":
                    depth += 1
                    if depth == 1 and self._is_array:
                        self._take(data[start:place])
                        self._drop()
                        start = place
                elif mark == b"," and depth == base and self._is_array:
                    self._take(data[start : place - 1])
                    yield self._piece(has_comma=True)
                    self._skip(data[place - 1 : place])
                    start = place
                elif mark in b"]}" and depth > base:
                    depth -= 1
                    if depth == base and not self._is_array:
                        self._take(data[start:place])
                        yield self._piece()
                        start = place
                elif mark == b"]" and self._is_array:
                    self._take(data[start : place - 1])
                    self.ended_with_comma = self._commas > 0 and self._is_blank()
                    if not self._is_blank():
                        yield self._piece()
                    else:
                        self._drop()
                    self._skip(b"]")
                    start, depth, is_over = place, 0, True
            self._take(data[start:place])
            data = data[place:]
        self._take(data)
        if self._is_array and is_over:
            if not self._is_blank():
                yield self._piece(fault="more text follows the end of the array")
        elif self._is_array:
            yield self._piece(fault=UNFINISHED if self._is_blank() else UNENDING)
        elif not self._is_blank():
            yield self._piece()

    def _take(self, data: bytes) -> None:
        """Add bytes to the row that is being read; only so many of them are kept."""
        if not self._size:
            rest = data.lstrip(SPACE)
            self._skip(data[: len(data) - len(rest)])
            data, self._start_line = rest, self._line
        self._skip(data)
        self._size += len(data)
        self._kept += data[: MAX_LINE_BYTES + 1 - len(self._kept)]

    def _skip(self, data: bytes) -> None:
        self._line += data.count(b"\n")

    def _is_blank(self) -> bool:
        return not self._size

    def _drop(self) -> None:
        self._kept, self._size, self._start_line = bytearray(), 0, self._line

    def _piece(self, *, has_comma: bool = False, fault: str | None = None) -> Piece:
        if has_comma:
            self._commas += 1
        if self._is_blank() and fault is None:
            fault = "nothing stands between two commas of the array"
        line = Line(self._start_line, bytes(self._kept), self._size)
        self._drop()
        return Piece(line, fault)
