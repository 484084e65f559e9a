"""Rows in blocks: the same rows come out, wherever a block ends."""

from __future__ import annotations

import hashlib

import pytest

from benchmax.sft import SftDataset
from benchmax.sft.store import BLOCK_BYTES, RowStore


def stored(rows: list[bytes]) -> RowStore:
    store = RowStore()
    for row in rows:
        store.append(row)
    return store


@pytest.mark.parametrize("rows", [[], [b"a"], [b"", b"bc", b""], [b"x" * (BLOCK_BYTES - 1), b"y", b"z"]])
def test_rows_come_out_as_they_went_in(rows):
    store = stored(rows)
    assert len(store) == len(rows)
    assert list(store.lines()) == [row + b"\n" for row in rows]
    assert b"".join(store.blocks()) == b"".join(row + b"\n" for row in rows)


def test_blocks_end_with_whole_rows_and_stay_below_their_size():
    rows = [b"%d" % index * 1000 for index in range(2000)]
    store = stored(rows)
    blocks = list(store.blocks())
    assert len(blocks) > 1
    assert all(block.endswith(b"\n") and len(block) <= BLOCK_BYTES for block in blocks)
    assert [store.line(index) for index in range(2000)] == [row + b"\n" for row in rows]


def test_there_is_no_row_outside():
    store = stored([b"a"])
    for index in (-1, 1):
        with pytest.raises(IndexError, match=f"no row {index}; there are 1"):
            store.line(index)


def test_a_dataset_over_several_blocks_is_whole():
    long = "x" * 1_000_000
    rows = [
        {"messages": [{"role": "user", "content": f"{index}{long}"}, {"role": "assistant", "content": "a"}]}
        for index in range(9)
    ]
    dataset = SftDataset.from_rows(rows)
    assert dataset.rows == rows
    assert dataset[8] == dataset.rows[2:][-1] == rows[8]
    assert dataset.rows[::-3] == rows[::-3]
    digest = hashlib.sha256()
    for line in dataset.iterate_jsonl_bytes():
        digest.update(line)
    assert digest.digest() == hashlib.sha256(dataset.to_jsonl_bytes()).digest()
