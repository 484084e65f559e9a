"""Rows of a source through a format and the checks of benchmax-sft-v1: written, or refused with a reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmax.sft.issues import Fault
from benchmax.sft.rows import check_row
from benchmax.sft.wording import shown
from castform.sft.convert.draft import Draft, Row
from castform.sft.convert.formats import nested_rows, recognise
from castform.sft.convert.notes import Note, RefusedError
from castform.sft.convert.source import SourceRow

ROW_KEYS = frozenset({"messages", "tools", "metadata"})
_METADATA = re.compile(r"\$\.metadata(?:\.[A-Za-z_][A-Za-z0-9_-]*|\['[^']*'\])")
_MESSAGE = re.compile(r"\$\.messages\[(\d+)\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowOutcome:
    """What became of one source row."""

    line: int | None
    row: int
    data: bytes | None
    """The canonical bytes of the converted row; None: it was refused."""
    is_same: bool
    """The source row kept the format already and is written as it was."""
    notes: tuple[Note, ...]
    """What was done, or why the row is refused."""


def convert_rows(
    rows: Iterable[SourceRow], convert: Callable[[Row], Draft], *, drop: frozenset[str] = frozenset()
) -> Iterator[RowOutcome]:
    """Yield one outcome a row, in order. `drop`: columns, or `column.key`, left out with a note."""
    for source in rows:
        if source.fault is not None:
            yield _refused(source, [Note(*source.fault)])
            continue
        notes = list(source.notes)
        try:
            yield _converted(source, convert, drop, notes)
        except RefusedError as refused:
            yield _refused(source, [_named_format(refused.note, source.value, drop)])


def _converted(
    source: SourceRow, convert: Callable[[Row], Draft], drop: frozenset[str], notes: list[Note]
) -> RowOutcome:
    value: Any = source.value
    if not isinstance(value, dict):
        raise RefusedError("row_not_object", "$", f"a row is an object, not {shown(value)}")
    value, dropped = _without(value, drop)
    notes += [Note("column_dropped", f"$.{key}", f"{shown(key)} was dropped") for key in dropped]
    if value.keys() <= ROW_KEYS:
        data, faults = check_row(value)
        if not faults:
            return RowOutcome(
                line=source.line, row=source.row, data=data, is_same=not dropped, notes=tuple(notes)
            )
    try:
        draft = convert(value)
    except RecursionError:
        raise RefusedError("too_deep", "$", "far too many objects and lists inside one another") from None
    data, faults = check_row(draft.row())
    if faults:
        return _refused(source, [_at_source(fault, draft) for fault in faults])
    return RowOutcome(
        line=source.line, row=source.row, data=data, is_same=False, notes=(*notes, *draft.notes)
    )


def _without(row: Row, drop: frozenset[str]) -> tuple[Row, list[str]]:
    """Return a row without some columns, and without `column.key` of all objects in a column's list."""
    dropped: list[str] = []
    for name in drop:
        column, dot, key = name.partition(".")
        if name in row:
            row = {each: item for each, item in row.items() if each != name}
            dropped.append(name)
        elif dot and isinstance(row.get(column), list):
            items = [_without_key(item, key) for item in row[column]]
            if any(one is not two for one, two in zip(items, row[column], strict=True)):
                row = {**row, column: items}
                dropped.append(name)
    return row, sorted(dropped)


def _without_key(item: object, key: str) -> object:
    if not isinstance(item, dict) or key not in item:
        return item
    return {each: value for each, value in item.items() if each != key}


def _refused(source: SourceRow, notes: list[Note]) -> RowOutcome:
    return RowOutcome(line=source.line, row=source.row, data=None, is_same=False, notes=tuple(notes))


def _at_source(fault: Fault, draft: Draft) -> Note:
    """Return a fault of the converted row as one of the source row."""
    found = _MESSAGE.match(fault.location)
    if found is not None and int(found[1]) < len(draft.places):
        place, rest = draft.places[int(found[1])], fault.location[found.end() :]
        location = place.content if rest == ".content" else place.message + rest
        return Note(fault.code, location, fault.message)
    column = _METADATA.match(fault.location)
    if column is not None and column[0] in draft.columns:
        location = draft.columns[column[0]] + fault.location[column.end() :]
        return Note(fault.code, location, fault.message)
    return Note(*fault)


def _named_format(note: Note, row: Row, drop: frozenset[str]) -> Note:
    """Return a refusal for want of columns as one that names the format which the row is of."""
    if note.code != "unknown_row":
        return note
    row, _ = _without(row, drop)
    name, reason = recognise(row)
    if name is None:
        nested = nested_rows(row)
        return note if nested is None else note._replace(message=nested)
    text = f"the row is of the format {name}: it has {reason}; convert such rows with --from {name}"
    return Note("other_format", "$", text)
