"""Rows that are there twice, to the letter or nearly: within a file, and in the held-out file too."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from benchmax.sft import SftDataset
from castform.sft.checking.sketches import SketchTable, make_sketch
from castform.sft.checking.wordings import conversation_key, shingles_of, similarity

NEAR = 0.8
"""Share of their word triples, counted over both together, from which two rows are near copies."""
WORTH_A_LOOK = 0.65
"""Agreement of two sketches from which the rows themselves are compared: 3 standard deviations below NEAR."""
MOST_LOOKS = 4
"""Rows that one row is compared with in full, the likeliest first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A row, and an earlier one (or one of the training file) that it repeats."""

    row: int
    of: int
    similarity: float
    """1.0 for an exact copy; a near copy may have it too, when the words are the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copies:
    """What is there more than once."""

    exact: Sequence[Copy]
    """The same messages, weights and tools, whatever the metadata."""
    near: Sequence[Copy]
    """At least NEAR of the word triples, system messages aside; every one was compared in full."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundCopies:
    """Of a training file, and of a held-out file against it."""

    within: Copies
    overlap: Copies | None


def find_copies(train: SftDataset, held_out: SftDataset | None = None) -> FoundCopies:
    """Find the copies within `train`, and the rows of `held_out` that `train` has, too.

    Each row is named once, with one row that it repeats; in `held_out` an exact copy is not looked
    at for near ones. Time grows with the words, memory by some 500 bytes a row of either file.
    """
    seen: dict[bytes, int] = {}
    table, rows = SketchTable(), array("L")
    exact_within: list[Copy] = []
    exact_overlap: list[Copy] = []
    for index, row in enumerate(train):
        first = seen.setdefault(conversation_key(row), index)
        if first != index:
            exact_within.append(Copy(row=index, of=first, similarity=1.0))
            continue
        _add(table, rows, index, shingles_of(row))
    pool = len(table)
    for index, row in enumerate(held_out or ()):
        known = seen.get(conversation_key(row))
        if known is not None:
            exact_overlap.append(Copy(row=index, of=known, similarity=1.0))
            continue
        _add(table, rows, index, shingles_of(row))
    seen.clear()
    near = _find_near(table, rows, pool, train, held_out)
    return FoundCopies(
        within=Copies(exact=tuple(exact_within), near=tuple(near[0])),
        overlap=None if held_out is None else Copies(exact=tuple(exact_overlap), near=tuple(near[1])),
    )


def _add(table: SketchTable, rows: array[int], index: int, shingles: frozenset[int]) -> None:
    if shingles:
        table.append(make_sketch(shingles))
        rows.append(index)


def _find_near(
    table: SketchTable, rows: array[int], pool: int, train: SftDataset, held_out: SftDataset | None
) -> tuple[list[Copy], list[Copy]]:
    columns = table.candidates(pool)

    @lru_cache(maxsize=2048)
    def read(place: int) -> frozenset[int]:
        source = train if place < pool or held_out is None else held_out
        return shingles_of(source[rows[place]])

    within: list[Copy] = []
    overlap: list[Copy] = []
    for place in range(len(table)):
        others = {column[place] for column in columns}
        others.discard(place)
        likely = sorted((-table.agreement(place, other), other) for other in others)
        for agreement, other in likely[:MOST_LOOKS]:
            if -agreement < WORTH_A_LOOK:
                break
            found = similarity(read(place), read(other))
            if found >= NEAR:
                target = within if place < pool else overlap
                target.append(Copy(row=rows[place], of=rows[other], similarity=found))
                break
    return within, overlap
