"""The rows of a source file, whatever it is written as: JSON lines, one array, values over many lines."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmax.sft.issues import Fault
from benchmax.sft.limits import MAX_LINE_BYTES
from benchmax.sft.lines import Line, lines_of
from benchmax.sft.parsing import UnreadableError, parse_line
from benchmax.sft.reading import BOM, decode_line
from castform.sft.convert.notes import Note
from castform.sft.convert.splitting import SPACE, ValueSplitter
from castform.sft.convert.unpacking import CutOffError, OpenSource, open_source

PEEK_BYTES = 1 << 16
LINES, ARRAY, VALUES = "JSON lines", "one JSON array", "JSON values over many lines"


class SourceRow(NamedTuple):
    """A row before it is converted."""

    line: int | None
    """Physical line on which it starts, from 1; None for rows that come from no file."""
    row: int
    """From 0."""
    value: Any
    """Any JSON value; None when there is a fault."""
    fault: Fault | None = None
    """Why the row cannot be read."""
    notes: tuple[Note, ...] = ()
    """What was done to read it."""


class SourceFile:
    """A file of rows. Each reading opens it anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written_as = LINES
        """How the rows stand in the file; known once they are read."""
        self.notes: list[Note] = []
        """What was done to read the file, once it was read to its end."""

    def rows(self) -> Generator[SourceRow, None, None]:
        """Yield the rows, those that cannot be read too. UsageError: the file itself cannot be."""
        self.notes, row, line = [], 0, 1
        try:
            with open_source(self.path) as source:
                self._note_opening(source)
                for found in self._read(source):
                    yield found._replace(row=row)
                    row, line = row + 1, (found.line or line) + 1
        except CutOffError as error:
            yield SourceRow(line, row, None, Fault("cut_off", "$", f"{error}; what follows is missing"))

    def _note_opening(self, source: OpenSource) -> None:
        if source.packed_as is not None:
            self.notes.append(Note("unpacked", "$", f"the file is {source.packed_as}-compressed"))
        if source.encoding is not None:
            self.notes.append(Note("utf16_decoded", "$", f"the file is {source.encoding}"))

    def _read(self, source: OpenSource) -> Iterator[SourceRow]:
        stream = source.stream
        if stream.peek(len(BOM)).startswith(BOM):
            stream.read(len(BOM))
            self.notes.append(Note("bom_removed", "$", "the file starts with a byte order mark"))
        self.written_as = _written_as(stream.peek(PEEK_BYTES)[:PEEK_BYTES])
        if self.written_as == LINES:
            yield from map(_row_of_line, lines_of(stream))
            return
        splitter = ValueSplitter(stream, is_array=self.written_as == ARRAY)
        for piece in splitter.pieces():
            fault = None if piece.fault is None else Fault("cut_off", "$", piece.fault)
            yield _row_of_value(piece.line, fault)
        if splitter.ended_with_comma:
            self.notes.append(Note("trailing_comma", "$", "a comma stands behind the last row of the array"))


def _row_of_line(line: Line) -> SourceRow:
    notes: tuple[Note, ...] = ()
    if line.data.startswith(BOM):  # inside a file: somebody put files one behind the other
        line = line._replace(data=line.data[len(BOM) :], size=line.size - len(BOM))
        notes = (Note("bom_removed", "$", "the line starts with a byte order mark"),)
    value, fault = decode_line(line)
    return SourceRow(line.number, 0, value, fault, notes)


def _row_of_value(line: Line, fault: Fault | None) -> SourceRow:
    if fault is None and line.size > MAX_LINE_BYTES:
        text = f"a row of {line.size:,} bytes, over {MAX_LINE_BYTES:,}, was not looked into"
        fault = Fault("row_too_large", "$", text)
    if fault is not None:
        return SourceRow(line.number, 0, None, fault)
    try:
        return SourceRow(line.number, 0, parse_line(line.data))
    except UnreadableError as error:
        return SourceRow(line.number, 0, None, Fault(error.code, "$", error.message))


def _written_as(start: bytes) -> str:
    """Return how the rows of a file stand in it that starts so."""
    first, newline, rest = start.lstrip(SPACE).partition(b"\n")
    if first.startswith(b"["):
        return ARRAY
    if not newline or not first.startswith(b"{"):
        return LINES
    second = rest.lstrip(SPACE).partition(b"\n")[0]
    if second and not _is_json(first) and not _is_json(second):
        return VALUES
    return LINES


def _is_json(line: bytes) -> bool:
    try:
        parse_line(line)
    except UnreadableError:
        return False
    return True
