"""Files: what is one line, what is no dataset at all, and what cannot be read."""

from __future__ import annotations

import errno
import gzip
import json
import os
import sys
import tracemalloc

import pytest

from benchmax.sft import RawRow, SftDataset, SftDatasetError, SftIssue, read_rows

ROW = {"messages": [{"role": "user", "content": "Grüße"}, {"role": "assistant", "content": "a"}]}
LINE = json.dumps(ROW, ensure_ascii=False).encode() + b"\n"


def issues_of(path, data: bytes) -> list[tuple[int | None, int | None, str]]:
    """Write a file and return (line, row, code) of every issue, none when it is sound."""
    path.write_bytes(data)
    try:
        SftDataset.from_jsonl(path)
    except SftDatasetError as error:
        assert {issue.location for issue in error.issues} == {"$"}
        return [(issue.line, issue.row, issue.code) for issue in error.issues]
    return []


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train.jsonl"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbf" + LINE, [(1, 0, "bom")]),
        (LINE + b"\xef\xbb\xbf" + LINE, [(2, 1, "invalid_json")]),
        (b"\n\xef\xbb\xbf" + LINE, [(2, 0, "invalid_json")]),
        (b'{"a": "\xe9"}\n' + LINE, [(1, 0, "not_utf8")]),
        (b'{"a": "\xed\xa0\x80"}\n', [(1, 0, "not_utf8")]),
        (LINE + b'{"a": {"b": 1, "c": 2, "b": 1}}\n', [(2, 1, "duplicate_key")]),
        (b'{"\\u0061": 1, "a": 1}', [(1, 0, "duplicate_key")]),
        (
            b'{"a": [NaN]}\n{"a": Infinity}\n{"a": -Infinity}',
            [(n, n - 1, "nonfinite_literal") for n in (1, 2, 3)],
        ),
        (b'{"a": 1} {"b": 2}\n', [(1, 0, "invalid_json")]),
        (b"{'a': 1}\n", [(1, 0, "invalid_json")]),
        (b'{"a": "\t"}\n', [(1, 0, "invalid_json")]),
        (b"\x0b" + LINE, [(1, 0, "invalid_json")]),
        (b'{"n": ' + b"9" * 5000 + b", }", [(1, 0, "invalid_json")]),
        (b"[" * 200_000 + b"\n", [(1, 0, "too_deep")]),
        (b"", [(None, None, "empty_dataset")]),
        (b"\n \t\r\x0b\x0c\n", [(None, None, "empty_dataset")]),
        (b" " * 17_000_000 + b"\n", [(None, None, "empty_dataset")]),
        (LINE * 2 + LINE[:-5], [(3, 2, "invalid_json")]),
        (LINE + LINE[: LINE.index(b"\xbc")], [(2, 1, "not_utf8")]),
        (LINE.rstrip(), []),
        (b" \t" + LINE.rstrip() + b"  \r\n\n\n" + LINE, []),
    ],
)
def test_each_line_has_the_one_issue_that_keeps_it_from_being_read(path, data, expected):
    assert issues_of(path, data) == expected


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(LINE * 100, mtime=0), "gzip-compressed; unpack it first"),
        (b"PK\x03\x04\n" + b"x\n" * 50, "zip archive; unpack it first"),
        (b"\x28\xb5\x2f\xfd\n\n\nx", "zstd-compressed; unpack it first"),
        (b"PAR1\n" * 9, "Parquet; write its rows as JSON lines"),
        (
            (LINE * 3).decode().encode("utf-16"),
            "UTF-16; save it as UTF-8, or `castform sft convert` reads it",
        ),
        ((LINE * 3).decode().encode("utf-16-be"), "UTF-16 without a byte order mark"),
        ((LINE * 3).decode().encode("utf-16-le"), "UTF-16 without a byte order mark"),
        ((LINE * 3).decode().encode("utf-32"), "UTF-32; save it"),
        ((LINE * 3).decode().encode("utf-32-be"), "UTF-32 without a byte order mark"),
        ((" " + LINE.decode() * 3).encode("utf-32-le"), "UTF-32 without a byte order mark"),
        (json.dumps([ROW, ROW], indent=1).encode(), "over many lines.*`castform sft convert` reads it"),
        (b"\xef\xbb\xbf" + json.dumps([ROW, ROW], indent=1).encode(), "over many lines"),
        (json.dumps(ROW, indent=1).encode(), "over many lines"),
        (b"[" + LINE.rstrip() + b",\n" + LINE + b"]", "over many lines"),
        (json.dumps([ROW, ROW]).encode(), "`castform sft convert` reads a file that is one array"),
    ],
)
def test_a_file_that_is_something_else_has_one_issue_that_says_what_it_is(path, data, words):
    path.write_bytes(data)
    with pytest.raises(SftDatasetError, match=words) as caught:
        SftDataset.from_jsonl(path)
    (issue,) = caught.value.issues
    assert (issue.line, issue.row, issue.location) == (1, 0, "$")
    assert str(path) in str(caught.value)


def test_a_file_cut_in_the_middle_of_a_character_says_so(path):
    path.write_bytes(LINE + LINE[: LINE.index(b"\xbc")])
    with pytest.raises(
        SftDatasetError, match=r"line 2, row 1, \$: the file ends in the middle of a character"
    ):
        SftDataset.from_jsonl(path)


def test_a_character_cut_in_the_middle_of_a_file_names_its_byte(path):
    path.write_bytes(LINE.replace(b"\xbc", b"") + LINE)
    with pytest.raises(SftDatasetError, match=rf"not UTF-8 \(byte {LINE.index(0xBC)} of the line, 0xc3\)"):
        SftDataset.from_jsonl(path)


def test_a_line_of_200_megabytes_is_refused_in_little_memory_and_the_rest_is_read(path):
    with path.open("wb") as file:
        file.write(b'[{"messages":[')
        file.seek(200_000_000, os.SEEK_CUR)  # a hole of zero bytes, no disk
        file.write(b"]}\n" + LINE + b"{\n")
    tracemalloc.start()
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_jsonl(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    long, bad = caught.value.issues
    assert (long.line, long.row, long.code) == (1, 0, "row_too_large")
    assert "a line of 200,000,017 bytes" in long.message
    assert "if it is one array of rows, `castform sft convert` reads it" in long.message
    assert (bad.line, bad.row, bad.code) == (3, 2, "invalid_json")
    assert peak < 40_000_000


def test_a_file_is_read_row_by_row(path):
    path.write_bytes(LINE * 20_000)
    tracemalloc.start()
    assert sum(row.value == ROW for row in read_rows(path)) == 20_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < path.stat().st_size


def test_a_dataset_takes_little_more_memory_than_its_rows(path):
    row = json.dumps({"messages": [{"role": "user", "content": "x" * 4000}, ROW["messages"][1]]}).encode()
    path.write_bytes((row + b"\n") * 2000)
    tracemalloc.start()
    dataset = SftDataset.from_jsonl(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * len(dataset.to_jsonl_bytes()) + 3_000_000


def test_raw_rows_come_with_their_line_and_whatever_they_are(path):
    path.write_bytes(b'\n{"prompt": "p"}\n\n[1]\nnull\n')
    assert list(read_rows(path)) == [RawRow(2, 0, {"prompt": "p"}), RawRow(4, 1, [1]), RawRow(5, 2, None)]


def test_raw_rows_end_with_the_first_line_that_cannot_be_read(path):
    path.write_bytes(b'{"a": 1}\n{"a": NaN}\n{"a": 1}\n')
    rows = read_rows(path)
    assert next(rows).value == {"a": 1}
    with pytest.raises(SftDatasetError) as caught:
        next(rows)
    message = "NaN is not JSON; write null or leave the key out"
    assert caught.value.issues == (SftIssue(message, "$", 2, 1, "nonfinite_literal"),)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named_with_where_it_was_looked_for(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"no such file \(looked from .*check the path: '.*nope\.jsonl'"
    ):
        SftDataset.from_jsonl(tmp_path / "nope.jsonl")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"name one of its \.jsonl files: "):
        SftDataset.from_jsonl(str(tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are files on POSIX systems only")
def test_a_pipe_is_refused_and_never_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="a pipe or a device; write the rows to a file first") as caught:
        SftDataset.from_jsonl(path)
    assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, str(path))


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has a regular file that cannot be read by anybody"
)
def test_a_fault_while_reading_names_the_file():
    with pytest.raises(OSError, match=r"reading failed \(.*copy the file to a local disk: '/proc/self/mem'"):
        SftDataset.from_jsonl("/proc/self/mem")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_a_file_of_another_user_says_what_to_change(path):
    path.write_bytes(LINE)
    path.chmod(0)
    with pytest.raises(PermissionError, match="may not read it; change its permissions"):
        SftDataset.from_jsonl(path)


def test_a_path_through_a_file_keeps_its_own_error(path):
    path.write_bytes(LINE)
    with pytest.raises(NotADirectoryError):
        SftDataset.from_jsonl(path / "x.jsonl")
