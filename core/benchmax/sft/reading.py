"""The rows of a JSONL file as they stand there, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmax.sft.file_kinds import binary_kind, is_open_document
from benchmax.sft.issues import Fault, SftDatasetError, SftIssue
from benchmax.sft.limits import MAX_LINE_BYTES
from benchmax.sft.lines import Line, read_lines
from benchmax.sft.parsing import UnreadableError, parse_line

BOM = b"\xef\xbb\xbf"
CONVERT = "`castform sft convert` reads it"


class RawRow(NamedTuple):
    """A row before it is checked."""

    line: int
    """Physical line, from 1."""
    row: int
    """Index over the lines that are not blank, from 0."""
    value: Any
    """What the JSON of the line decodes to: any JSON value."""


class NumberedLine(NamedTuple):
    """A line that is not blank, before it is decoded."""

    row: int
    """Index over such lines, from 0."""
    line: Line
    fault: Fault | None
    """Why the file that starts with it is no JSONL at all; then it is the last one."""


def read_rows(path: str | os.PathLike[str]) -> Iterator[RawRow]:
    """Yield the rows of a JSONL file, unchecked, in memory for one of them.

    SftDatasetError, with one issue, at the first line that is not strict JSON; OSError when the
    file cannot be read.
    """
    for row, line, fault in number_lines(path):
        value, unreadable = (None, fault) if fault is not None else decode_line(line)
        if unreadable is not None:
            issue = SftIssue(unreadable.message, unreadable.location, line.number, row, unreadable.code)
            raise SftDatasetError([issue], os.fspath(path))
        yield RawRow(line.number, row, value)


def number_lines(path: str | os.PathLike[str]) -> Iterator[NumberedLine]:
    """Yield every line that is not blank.

    A file that is something else altogether (compressed, UTF-16, one JSON array over many lines)
    gives one line, with the fault that says so.
    """
    for row, line in enumerate(read_lines(path)):
        fault = _wrong_file(line) if row == 0 else None
        yield NumberedLine(row, line, fault)
        if fault is not None:
            return


def decode_line(line: Line) -> tuple[Any, Fault | None]:
    """Return the value of a line and None, or None and the fault that keeps it from having a value."""
    try:
        return _value(line), None
    except UnreadableError as error:
        return None, Fault(error.code, "$", error.message)


def _value(line: Line) -> Any:
    if line.number == 1 and line.data.startswith(BOM):
        text = f"the file starts with a byte order mark (EF BB BF); save it without one, or {CONVERT}"
        raise UnreadableError("bom", text)
    if line.size > MAX_LINE_BYTES:
        text = f"a line of {line.size:,} bytes, over {MAX_LINE_BYTES:,}, was not looked into"
        array = f"; if it is one array of rows, {CONVERT}" if line.data.lstrip().startswith(b"[") else ""
        raise UnreadableError("row_too_large", text + array)
    return parse_line(line.data)


def _wrong_file(line: Line) -> Fault | None:
    """Return why this first line is not one of a JSONL file at all."""
    kind = binary_kind(line.data)
    if kind is not None:
        return Fault("not_utf8", "$", kind)
    if is_open_document(line.data.removeprefix(BOM)):
        text = f"a JSON value over many lines starts here, such as one array of rows; a row is one line. {CONVERT}"
        return Fault("invalid_json", "$", text)
    return None
