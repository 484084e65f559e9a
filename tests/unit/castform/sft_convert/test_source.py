"""Files as they come: lines, arrays, packed, wide, cut off. Every row has its line, and no row is lost."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.errors import UsageError
from castform.sft.convert import splitting
from castform.sft.convert.source import ARRAY, LINES, VALUES, SourceFile

ROWS = [{"a": 'x"],[{\\'}, {"b": [1, {"c": "é\u2028"}]}, {}]


def read(path, data):
    path.write_bytes(data)
    source = SourceFile(path)
    rows = list(source.rows())
    assert [row.row for row in rows] == list(range(len(rows)))
    return source, rows


def faults(rows):
    return [(row.line, row.fault.code) for row in rows if row.fault is not None]


def dump(value, **options):
    return json.dumps(value, ensure_ascii=False, **options).encode()


LINES_OF_ROWS = b"".join(dump(row) + b"\n" for row in ROWS)


@pytest.mark.parametrize(
    ("data", "written_as", "lines"),
    [
        (LINES_OF_ROWS, LINES, [1, 2, 3]),
        (b"\n \t\r\n" + LINES_OF_ROWS.replace(b"\n", b"\r\n\n"), LINES, [3, 5, 7]),
        (LINES_OF_ROWS.rstrip(), LINES, [1, 2, 3]),
        (dump(ROWS), ARRAY, [1, 1, 1]),
        (dump(ROWS, indent=2), ARRAY, [2, 5, 13]),
        (b"\n\n [\n" + b",\n".join(map(dump, ROWS)) + b"\n]\n\n", ARRAY, [4, 5, 6]),
        (b"".join(dump(row, indent=1) + b"\n" for row in ROWS), VALUES, [1, 4, 12]),
    ],
)
def test_rows_are_read_with_their_lines_however_they_stand(tmp_path, data, written_as, lines):
    source, rows = read(tmp_path / "x", data)
    assert [row.value for row in rows] == ROWS
    assert (source.written_as, [row.line for row in rows], source.notes) == (written_as, lines, [])


@pytest.mark.parametrize(
    ("pack", "name"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2"), (lzma.compress, "xz")]
)
@pytest.mark.parametrize("data", [LINES_OF_ROWS, dump(ROWS, indent=2)])
def test_packed_files_are_read_and_it_is_said(tmp_path, pack, name, data):
    source, rows = read(tmp_path / "x.jsonl", pack(data))
    assert [row.value for row in rows] == ROWS
    assert [(note.code, note.message) for note in source.notes] == [
        ("unpacked", f"the file is {name}-compressed")
    ]


@pytest.mark.parametrize("before", [b"", b"[\n"])
@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_that_is_cut_off_gives_its_rows_and_one_that_is_refused(tmp_path, pack, before):
    plain = before + (b",\n" if before else b"\n").join(
        dump({"n": number, "x": str(number**9)}) for number in range(2_000)
    )
    data = pack(plain)
    _, rows = read(tmp_path / "x", data[: len(data) // 2])
    assert rows[-1].fault.code == "cut_off" and "cut off" in rows[-1].fault.message
    assert all(row.fault is None for row in rows[:-1])
    assert len(rows) > 500


def test_a_packed_file_with_damage_inside_is_refused_from_there(tmp_path):
    data = bytearray(gzip.compress(b"".join(dump({"n": number}) + b"\n" for number in range(4_000))))
    data[len(data) // 2 : len(data) // 2 + 9] = b"\xff" * 9
    _, rows = read(tmp_path / "x", bytes(data))
    assert rows[-1].fault.code == "cut_off"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("data", [LINES_OF_ROWS, dump(ROWS), b"\r\n " + LINES_OF_ROWS])
def test_wide_characters_are_read_and_it_is_said(tmp_path, encoding, data):
    source, rows = read(tmp_path / "x", data.decode().encode(encoding))
    assert [row.value for row in rows] == ROWS
    assert [(note.code, note.message) for note in source.notes] == [
        ("utf16_decoded", f"the file is {encoding}")
    ]


def test_wide_characters_that_are_cut_in_the_middle_are_refused_there(tmp_path):
    _, rows = read(tmp_path / "x", LINES_OF_ROWS.decode().encode("utf-16")[:-1])
    assert faults(rows) == [(rows[-1].line, "cut_off")]


def test_a_byte_order_mark_is_removed_and_counted_where_it_stands(tmp_path):
    mark = b"\xef\xbb\xbf"
    source, rows = read(tmp_path / "x", mark + b'{"a":1}\n' + mark + b'{"a":2}\n')
    assert [row.value for row in rows] == [{"a": 1}, {"a": 2}]
    assert [note.code for note in source.notes] == ["bom_removed"]
    assert [[note.code for note in row.notes] for row in rows] == [[], ["bom_removed"]]
    source, rows = read(tmp_path / "x", mark + b'[{"a":1}]')
    assert [row.value for row in rows] == [{"a": 1}] and source.notes[0].code == "bom_removed"


def test_separators_of_unicode_end_no_line(tmp_path):
    _, rows = read(tmp_path / "x", '{"a":"x\u2028y\u0085z"}\r\n{"b":1}\n'.encode())
    assert [row.value for row in rows] == [{"a": "x\u2028y\u0085z"}, {"b": 1}]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a":1}\n{"a": }\n{"a":2}\n{"a":"\xc3', [(2, "invalid_json"), (4, "not_utf8")]),
        (
            b'{"a":1}\n{"a":NaN}\n{"a":1,"a":2}\n' + b'{"a":' * 100_000,
            [(2, "nonfinite_literal"), (3, "duplicate_key"), (4, "too_deep")],
        ),
        (b'[{"a":1},\n{"a": },\n{"a":"\xff"},{"a":2}]', [(2, "invalid_json"), (3, "not_utf8")]),
        (b'[{"a":1},,{"a":2}]', [(1, "cut_off")]),
        (b'[{"a":1}\n,{"a":2} {"a":3}]', [(2, "invalid_json")]),
        (b'[{"a":1}, {"a":2}', [(1, "cut_off")]),
        (b'[{"a":1},\n', [(2, "cut_off")]),
        (b'[{"a":1}\n]\n{"a":2}', [(3, "cut_off")]),
        (b'[{"a":1}, {"a":[2}, {"a":3}]', [(1, "cut_off")]),
        (b'[{"a":1}}, {"a":2}]', [(1, "invalid_json")]),
        (b"[", [(1, "cut_off")]),
        (b'{"a":1\n,"b":2\n}\n{"a"\n:3', [(4, "invalid_json")]),
    ],
)
def test_broken_rows_are_refused_with_their_line_and_the_others_read(tmp_path, data, expected):
    _, rows = read(tmp_path / "x", data)
    assert faults(rows) == expected


def test_a_comma_behind_the_last_row_loses_nothing_and_is_told(tmp_path):
    source, rows = read(tmp_path / "x", b'[{"a":1},\n]')
    assert [row.value for row in rows] == [{"a": 1}]
    assert [note.code for note in source.notes] == ["trailing_comma"]


@pytest.mark.parametrize("data", [b"", b"\n \n", b"[]", b" [ \n ] "])
def test_a_file_without_rows_has_none(tmp_path, data):
    assert read(tmp_path / "x", data)[1] == []


@pytest.mark.parametrize(
    ("start", "word"),
    [
        (b"PAR1", "Parquet"),
        (b"PK\x03\x04", "zip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"SQLite format 3\x00", "SQLite"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path, start, word):
    with pytest.raises(UsageError, match=word):
        read(tmp_path / "x", start + b"...")
    with pytest.raises(UsageError, match=word):
        read(tmp_path / "x", gzip.compress(start + b"..."))


def test_a_row_far_over_the_limit_is_refused_in_bounded_memory(tmp_path):
    path = tmp_path / "x"
    with path.open("wb") as stream:
        stream.write(b'[{"a":1},\n{"b":"')
        for _ in range(40):
            stream.write(b'\\"x]' + b"[" * (1 << 20))
        stream.write(b'"},\n{"c":2}]')
    tracemalloc.start()
    rows = list(SourceFile(path).rows())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(row.line, row.value) for row in rows] == [(1, {"a": 1}), (2, None), (3, {"c": 2})]
    assert rows[1].fault.code == "row_too_large"
    assert peak < 40_000_000


TEXT = st.text(alphabet='ab"\\[]{},: \n\u2028é', max_size=6)
VALUE = st.recursive(
    TEXT | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(
    rows=st.lists(st.dictionaries(TEXT, VALUE, max_size=3), min_size=1, max_size=4),
    indent=st.sampled_from([None, 0, 2]),
    block=st.integers(1, 40),
    ascii=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_an_array_is_split_where_its_rows_end_wherever_blocks_do(
    tmp_path_factory, rows, indent, block, ascii
):
    path = tmp_path_factory.mktemp("split") / "x"
    whole = splitting.BLOCK_BYTES
    splitting.BLOCK_BYTES = block
    try:
        _, found = read(path, json.dumps(rows, indent=indent, ensure_ascii=ascii).encode())
    finally:
        splitting.BLOCK_BYTES = whole
    assert [row.value for row in found] == rows
