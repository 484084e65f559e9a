"""MinHash: rows that share most of their shingles are found without comparing every two of them.

A sketch has SLOTS values; two sketches agree in each with the probability that is the Jaccard
index of their sets (Broder 1997). It is filled as in Dahlgaard, Knudsen and Thorup, "Fast
Similarity Sketching" (2017): each shingle goes into one slot and the smallest stays, and only a
set too small to fill all of them goes round again, so a long row costs one step a shingle.

Candidates are rows that agree in all ROWS_OF_BAND values of one of BANDS bands: with 16 bands of
4, a share of 1 - (1 - s^4)^16 of the pairs of similarity s: 0.9998 at 0.8, 0.64 at 0.5.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from operator import eq

SLOTS = 64
BANDS = 16
ROWS_OF_BAND = SLOTS // BANDS
_VALUE_BITS, _VALUE_SHIFT = 16, 24
"""Bits that are kept of a value, and those below them; two that differ look equal once in 65,536 times."""
_BYTES = SLOTS * _VALUE_BITS // 8
_BAND_BYTES = _BYTES // BANDS
_MASK = (1 << 64) - 1
_SLOT_SHIFT = 64 - 6
assert SLOTS == 1 << 6


def _draw_rounds(count: int, seed: str) -> list[tuple[int, int]]:
    """Return an odd factor and an offset for each round: fixed, so that sketches are."""
    draw = random.Random(seed)
    return [(draw.getrandbits(64) | 1, draw.getrandbits(64)) for _ in range(count)]


_ROUNDS = _draw_rounds(16, "castform.sft.checking: slots by chance")
_LAST_ROUNDS = _draw_rounds(SLOTS, "castform.sft.checking: one slot each")


def make_sketch(shingles: frozenset[int]) -> bytes:
    """Return the sketch of a set that is not empty, 128 bytes."""
    slots: dict[int, int] = {}
    for factor, offset in _ROUNDS:
        values = [(shingle * factor + offset) & _MASK for shingle in shingles]
        values.sort(reverse=True)
        smallest = {value >> _SLOT_SHIFT: value for value in values}  # the last one of a slot stays
        smallest.update(slots)
        slots = smallest
        if len(slots) == SLOTS:
            break
    else:  # a small set: each slot that is still empty takes the smallest value of a round of its own
        for slot, (factor, offset) in enumerate(_LAST_ROUNDS):
            if slot not in slots:
                slots[slot] = min([(shingle * factor + offset) & _MASK for shingle in shingles])
    return array("H", [slots[slot] >> _VALUE_SHIFT & 0xFFFF for slot in range(SLOTS)]).tobytes()


class SketchTable:
    """The sketches of many rows in one block: 128 bytes a row, and 128 more while candidates are sought."""

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data) // _BYTES

    def append(self, sketch: bytes) -> None:
        self._data += sketch

    def agreement(self, one: int, two: int) -> float:
        """Return the share of values in which two sketches agree: the estimate of their similarity."""
        same: int = sum(map(eq, self._values(one), self._values(two)))
        return same / SLOTS

    def _values(self, index: int) -> Sequence[int]:
        return memoryview(self._data)[index * _BYTES : (index + 1) * _BYTES].cast("H")

    def candidates(self, pool: int) -> Sequence[Sequence[int]]:
        """Return for each row, band by band, rows before it that may be near it.

        Of the rows that agree in a band, these are the first and the nearest one: at most 32 a
        row, so that the work grows with the rows and not with their pairs. Rows from `pool` on are
        given rows below `pool` only. An entry equal to the row itself stands for none.
        """
        first = [array("L", range(len(self))) for _ in range(BANDS)]
        nearest = [array("L", range(len(self))) for _ in range(BANDS)]
        for band in range(BANDS):
            firsts: dict[bytes, int] = {}
            latest: dict[bytes, int] = {}
            start = band * _BAND_BYTES
            for index in range(len(self)):
                at = index * _BYTES + start
                key = bytes(self._data[at : at + _BAND_BYTES])
                found = firsts.get(key)
                if found is not None:
                    first[band][index], nearest[band][index] = found, latest[key]
                if index < pool:
                    firsts.setdefault(key, index)
                    latest[key] = index
        return [*first, *nearest]
