"""A validated dataset of conversations: everything in it keeps benchmax-sft-v1."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from benchmax.sft.clean import KnownTools
from benchmax.sft.issues import Fault, SftDatasetError, SftIssue
from benchmax.sft.reading import decode_line, number_lines
from benchmax.sft.rows import canonical_line, check_row

Row = dict[str, Any]


class SftRows(Sequence[Row]):
    """Rows that are decoded when they are asked for, so that each is the caller's own to change.

    Equal to any sequence of equal rows. Keys come in sorted order, whatever the source had.
    """

    __slots__ = ("_encoded",)

    def __init__(self, encoded: tuple[bytes, ...]) -> None:
        self._encoded = encoded

    def __len__(self) -> int:
        return len(self._encoded)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> SftRows: ...
    def __getitem__(self, index: int | slice) -> Row | SftRows:
        if isinstance(index, slice):
            return SftRows(self._encoded[index])
        return _decoded(self._encoded[index])

    def __iter__(self) -> Iterator[Row]:
        return map(_decoded, self._encoded)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SftRows):
            return self._encoded == other._encoded
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

    __slots__ = ("_encoded", "_lines")

    _encoded: tuple[bytes, ...]
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
        return SftRows(self._encoded)

    def line_of(self, row: int) -> int | None:
        """Return the physical line that a row stands on; None when the rows came from no file."""
        return None if self._lines is None else self._lines[row]

    def to_jsonl_bytes(self) -> bytes:
        r"""Return the canonical file: a row a line, sorted keys, UTF-8, `\n` behind each row."""
        return b"".join(self.iterate_jsonl_bytes())

    def iterate_jsonl_bytes(self) -> Iterator[bytes]:
        """Yield the canonical file line by line: to write or hash it without a second copy."""
        for row in self._encoded:
            yield row + b"\n"

    def __len__(self) -> int:
        return len(self._encoded)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> SftRows: ...
    def __getitem__(self, index: int | slice) -> Row | SftRows:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __eq__(self, other: object) -> bool:
        return self._encoded == other._encoded if isinstance(other, SftDataset) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._encoded)

    def __repr__(self) -> str:
        return f"SftDataset({len(self)} rows)"


class _Checked:
    """Rows that were looked at: their bytes as long as all are sound, then only what is wrong."""

    def __init__(self) -> None:
        self._encoded: list[bytes] = []
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
            self._encoded.append(data)
            if line is not None:
                self._lines.append(line)

    def report(self, faults: list[Fault], *, row: int, line: int | None) -> None:
        self._encoded.clear()
        self._issues += [SftIssue(each.message, each.location, line, row, each.code) for each in faults]

    def made(self, kind: type[SftDataset], *, source: str | None) -> SftDataset:
        """Return the dataset, or raise SftDatasetError."""
        if not self._issues and not self._encoded:
            text = "there is no row; a dataset has at least one"
            self._issues.append(SftIssue(text, "$", code="empty_dataset"))
        if self._issues:
            raise SftDatasetError(self._issues, source)
        dataset = object.__new__(kind)
        dataset._encoded = tuple(self._encoded)
        dataset._lines = self._lines if self._lines else None
        return dataset


def _decoded(data: bytes) -> Row:
    row: Row = json.loads(data)
    return row
