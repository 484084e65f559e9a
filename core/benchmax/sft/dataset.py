"""A validated dataset of conversations: everything in it keeps benchmax-sft-v1."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import eq
from typing import Any, overload

from benchmax.sft.clean import KnownTools
from benchmax.sft.issues import Fault, SftDatasetError, SftIssue
from benchmax.sft.reading import decode_line, number_lines
from benchmax.sft.rows import canonical_line, check_row
from benchmax.sft.store import RowStore

Row = dict[str, Any]


class SftRows(Sequence[Row]):
    """Rows that are decoded when they are asked for, so that each is the caller's own to change.

    Equal to any sequence of equal rows. Keys come in sorted order, whatever the source had.
    """

    __slots__ = ("_places", "_store")

    def __init__(self, store: RowStore, places: range) -> None:
        self._store = store
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> SftRows: ...
    def __getitem__(self, index: int | slice) -> Row | SftRows:
        if isinstance(index, slice):
            return SftRows(self._store, self._places[index])
        return _decoded(self._store.line(self._places[index]))

    def __iter__(self) -> Iterator[Row]:
        return map(_decoded, self._lines())

    def _lines(self) -> Iterator[bytes]:
        return map(self._store.line, self._places)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SftRows):
            return len(self) == len(other) and all(map(eq, self._lines(), other._lines()))
        if not isinstance(other, Sequence) or isinstance(other, (str, bytes)):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    def __repr__(self) -> str:
        return f"SftRows({len(self)} rows)"


class SftDataset(Sequence[Row]):
    """Rows of the format benchmax-sft-v1, made by `from_jsonl` or `from_rows` and by nothing else.

    Making one is all or nothing: SftDatasetError carries every issue of the data, in document
    order. What is kept are the canonical bytes of each row; `rows`, indexing and iterating decode
    them anew, so nothing that a caller changes reaches the dataset.

    Strict on purpose: a byte order mark is refused (`bom`), as are calls without results. What
    can be mended is mended, and counted, by `castform sft convert`.
    """

    __slots__ = ("_lines", "_store")

    _store: RowStore
    _lines: Sequence[int] | None

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TypeError("SftDataset is made by SftDataset.from_jsonl(path) or SftDataset.from_rows(rows)")

    @classmethod
    def from_jsonl(cls, path: str | os.PathLike[str]) -> SftDataset:
        """Read a file of one JSON object a line, UTF-8, in memory for its rows and one line more.

        SftDatasetError: the data is not sound. OSError: the file cannot be read.
        """
        checked, known = _Checked(), KnownTools()
        for row, line, fault in number_lines(path):
            data = canonical_line(line, known) if fault is None else None
            if data is not None:
                checked.keep(data, line=line.number)
                continue
            value, unreadable = decode_line(line) if fault is None else (None, fault)
            if unreadable is None:
                checked.add(value, row=row, line=line.number)
            else:
                checked.report([unreadable], row=row, line=line.number)
        return checked.made(cls, source=os.fspath(path))

    @classmethod
    def from_rows(cls, rows: Iterable[Any]) -> SftDataset:
        """Check rows that are Python objects; what they refer to is not kept. SftDatasetError."""
        checked = _Checked()
        for row, value in enumerate(rows):
            checked.add(value, row=row, line=None)
        return checked.made(cls, source=None)

    @property
    def rows(self) -> SftRows:
        """The rows in input order; each access to one decodes a new object."""
        return SftRows(self._store, range(len(self._store)))

    def line_of(self, row: int) -> int | None:
        """Return the physical line that a row stands on; None when the rows came from no file."""
        return None if self._lines is None else self._lines[row]

    def to_jsonl_bytes(self) -> bytes:
        r"""Return the canonical file: a row a line, sorted keys, UTF-8, `\n` behind each row."""
        return b"".join(self._store.blocks())

    def iterate_jsonl_bytes(self) -> Iterator[bytes]:
        """Yield the canonical file line by line: to write or hash it without a second copy."""
        return self._store.lines()

    def __len__(self) -> int:
        return len(self._store)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> SftRows: ...
    def __getitem__(self, index: int | slice) -> Row | SftRows:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __eq__(self, other: object) -> bool:
        return self.rows == other.rows if isinstance(other, SftDataset) else NotImplemented

    def __hash__(self) -> int:
        return hash((len(self), self._store.line(0)))

    def __repr__(self) -> str:
        return f"SftDataset({len(self)} rows)"


class _Checked:
    """Rows that were looked at: their bytes as long as all are sound, then only what is wrong."""

    def __init__(self) -> None:
        self._store = RowStore()
        self._lines = array("Q")
        self._issues: list[SftIssue] = []

    def add(self, value: object, *, row: int, line: int | None) -> None:
        data, faults = check_row(value)
        if faults:
            self.report(faults, row=row, line=line)
        else:
            self.keep(data, line=line)

    def keep(self, data: bytes, *, line: int | None) -> None:
        """Store a sound row, as long as all were."""
        if not self._issues:
            self._store.append(data)
            if line is not None:
                self._lines.append(line)

    def report(self, faults: list[Fault], *, row: int, line: int | None) -> None:
        self._store = RowStore()
        self._issues += [SftIssue(each.message, each.location, line, row, each.code) for each in faults]

    def made(self, kind: type[SftDataset], *, source: str | None) -> SftDataset:
        """Return the dataset, or raise SftDatasetError."""
        if not self._issues and not len(self._store):
            text = "there is no row; a dataset has at least one"
            self._issues.append(SftIssue(text, "$", code="empty_dataset"))
        if self._issues:
            raise SftDatasetError(self._issues, source)
        dataset = object.__new__(kind)
        dataset._store = self._store
        dataset._lines = self._lines if self._lines else None
        return dataset


def _decoded(data: bytes) -> Row:
    row: Row = json.loads(data)
    return row
