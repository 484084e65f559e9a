"""`castform sft convert` as a person types it: files, exits, what is said, what is left on the disk."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmax.sft import SftDataset
from castform.cli.main import main
from castform.sft.convert.writing import new_file

TALK = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
TURNS = {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}
SPOILT = {"messages": [{"role": "user", "content": "q"}]}


def write(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_file_is_detected_converted_and_counted(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", TURNS, {**TURNS, "id": 3})
    assert main(["sft", "convert", source, "--output", "out.jsonl", "--report", "report.jsonl"]) == 0
    said = capsys.readouterr()
    assert "sharegpt (2 of the first 2 rows have `conversations` with `from`)" in said.out
    assert "2 = 2 converted + 0 refused" in said.out
    assert "kept_in_metadata" in said.out and "REFUSED" not in said.out
    assert "wrote 2 rows to out.jsonl" in said.err
    assert SftDataset.from_jsonl("out.jsonl").rows == [TALK, {**TALK, "metadata": {"id": 3}}]
    assert [json.loads(line)["line"] for line in Path("report.jsonl").read_text().splitlines()] == [1, 2]
    assert names(tmp_path) == ["in.jsonl", "out.jsonl", "report.jsonl"]


def test_without_an_output_it_only_says_what_would_come_of_it(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", TALK)
    assert main(["sft", "convert", source]) == 0
    assert "nothing was written; --output FILE does" in capsys.readouterr().err
    assert names(tmp_path) == ["in.jsonl"]


def test_refused_rows_exit_1_with_place_and_reason_and_the_rest_is_written(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", TALK, SPOILT)
    words = ["sft", "convert", source, "-o", "out.jsonl"]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert "2 = 1 converted + 1 refused" in out
    assert "wrote 1 row to out.jsonl" in err
    assert "1 row refused, so this ends with exit code 1; --allow-refused makes it 0" in err
    assert "line 2, row 1, $.messages: nothing to train on" in out
    assert len(SftDataset.from_jsonl("out.jsonl")) == 1
    assert main([*words, "--allow-refused"]) == 0
    assert main([*words, "--allow-refused", "--json"]) == 0


def test_json_has_every_count_and_examples(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", TALK, SPOILT, SPOILT, SPOILT, SPOILT, {**TALK, "id": "\ud800"})
    assert main(["sft", "convert", source, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["written"], found["unchanged"], found["refused"]) == (6, 1, 1, 5)
    assert (found["format"], found["output"], found["read_as"]) == ("openai", None, "JSON lines")
    assert found["detected"] == "6 of the first 6 rows have `messages` with `role`"
    first, second = found["refusals"]
    assert (first["code"], first["rows"], len(first["examples"])) == ("nothing_to_train", 4, 3)
    assert second["examples"] == [
        {
            "line": 6,
            "row": 5,
            "code": "lone_surrogate",
            "location": "$.id",
            "message": second["examples"][0]["message"],
        }
    ]
    assert found["notes"] == []


def test_no_row_that_can_be_converted_writes_nothing_and_leaves_what_was_there(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", SPOILT)
    Path("out.jsonl").write_text("before")
    assert main(["sft", "convert", source, "-o", "out.jsonl", "--allow-refused", "--report", "r"]) == 1
    assert "no row could be converted, so nothing was written" in capsys.readouterr().err
    assert Path("out.jsonl").read_text() == "before"
    assert json.loads(Path("r").read_text())["codes"] == ["nothing_to_train"]


def test_a_packed_file_with_a_byte_order_mark_is_read_and_told(tmp_path, capsys):
    source = tmp_path / "in.jsonl.gz"
    source.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps([TALK]).encode()))
    assert main(["sft", "convert", str(source), "-o", "out.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "one JSON array; the file is gzip-compressed; the file starts with a byte order mark" in out
    assert SftDataset.from_jsonl("out.jsonl").rows == [TALK]


def test_a_column_is_dropped_and_one_that_is_not_there_is_named(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", {**TURNS, "text": "x"})
    words = ["sft", "convert", source, "-o", "out.jsonl", "--drop", "text", "--drop", "txet"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "column_dropped" in said.out and "kept_in_metadata" not in said.out
    assert "so --drop txet did nothing" in said.err and "--drop text " not in said.err
    assert SftDataset.from_jsonl("out.jsonl").rows == [TALK]


def test_a_format_is_taken_at_its_word(tmp_path, capsys):
    source = write(tmp_path / "in.jsonl", TURNS, {"text": "x"})
    assert main(["sft", "convert", source]) == 1
    capsys.readouterr()
    assert main(["sft", "convert", source, "--from", "openai"]) == 1
    assert "convert such rows with --from sharegpt" in capsys.readouterr().out
    assert main(["sft", "convert", source, "--from", "sharegtp"]) == 2
    assert "sharegpt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["absent.jsonl"], "there is no file absent.jsonl"),
        (["."], "is a folder"),
        (["in.jsonl", "-o", "in.jsonl"], "is the same file as in.jsonl"),
        (["in.jsonl", "-o", "linked.jsonl"], "is the same file as in.jsonl"),
        (["in.jsonl", "-o", "hard.jsonl"], "is the same file as in.jsonl"),
        (["in.jsonl", "-o", "a.jsonl", "--report", "./a.jsonl"], "is the same file as a.jsonl"),
        (["in.jsonl", "--report", "in.jsonl"], "the report in.jsonl is the same file"),
        (["in.jsonl", "-o", "."], "is a folder"),
        (["in.jsonl", "-o", "no/where.jsonl"], "there is no folder"),
        (["in.jsonl", "-o", "in.jsonl/x"], "there is no folder"),
        (["in.jsonl", "-o", "/dev/null"], "is a pipe or a device"),
        (["/dev/null"], "is a pipe or a device"),
        (["x" * 300], "cannot be read: File name too long"),
        (["in.jsonl", "-o", "x" * 300], "cannot be made: File name too long"),
        (["empty.jsonl"], "empty.jsonl has no rows"),
        (["empty.jsonl", "--from", "openai"], "empty.jsonl has no rows"),
        (["table.parquet"], "Parquet"),
        (["words.txt"], "the first fault is in line 1: not JSON"),
        (["pairs.jsonl"], "preference training"),
        ([], "no file given"),
    ],
)
def test_what_cannot_be_started_exits_2_says_why_and_changes_nothing(tmp_path, capsys, words, text):
    write(tmp_path / "in.jsonl", TALK)
    write(tmp_path / "empty.jsonl")
    write(tmp_path / "pairs.jsonl", {"prompt": "a", "chosen": "b", "rejected": "c"})
    (tmp_path / "table.parquet").write_bytes(b"PAR1....")
    (tmp_path / "words.txt").write_text("some words\nand more\n")
    (tmp_path / "linked.jsonl").symlink_to("in.jsonl")
    (tmp_path / "hard.jsonl").hardlink_to("in.jsonl")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(["sft", "convert", *words]) == 2
    assert text in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_output_is_written_through_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    Path("out.jsonl").symlink_to("there/real.jsonl")
    assert main(["sft", "convert", write(tmp_path / "in.jsonl", TALK), "-o", "out.jsonl"]) == 0
    assert Path("out.jsonl").is_symlink() and len(SftDataset.from_jsonl("there/real.jsonl")) == 1


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from castform.cli.main import main
sys.exit(main(["sft", "convert", "in.jsonl", "-o", "out.jsonl", "--report", "report.jsonl"]))
"""


def test_a_disk_that_refuses_leaves_neither_output_nor_a_part_of_it(tmp_path):
    write(tmp_path / "in.jsonl", *[TALK] * 3000)
    Path("out.jsonl").write_text("before")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "error: cannot write" in done.stderr and "Traceback" not in done.stderr
    assert names(tmp_path) == ["in.jsonl", "out.jsonl"]
    assert Path("out.jsonl").read_text() == "before"


SIGNALLED = """
import os, signal, sys
from castform.cli.main import main
from castform.sft.convert import files
add, number = files.ConversionTally.add, getattr(signal, sys.argv[1])
if number != signal.SIGKILL:
    signal.signal(number, signal.SIG_DFL)  # whoever runs the tests by nohup would have it ignored
def add_and_be_told(tally, outcome):
    add(tally, outcome)
    if tally.rows == 2000:
        os.kill(os.getpid(), number)
files.ConversionTally.add = add_and_be_told
sys.exit(main(["sft", "convert", "in.jsonl", "-o", "out.jsonl", "--report", "report.jsonl"]))
"""


def convert_and_be_told(signal_name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SIGNALLED, signal_name]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("signal_name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_ends_it_leaves_nothing_behind(tmp_path, signal_name):
    write(tmp_path / "in.jsonl", *[TALK] * 3000)
    done = convert_and_be_told(signal_name)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert names(tmp_path) == ["in.jsonl"]


def test_what_a_killed_one_left_is_swept_by_the_next_and_what_another_writes_is_not(tmp_path):
    write(tmp_path / "in.jsonl", *[TALK] * 3000)
    assert convert_and_be_told("SIGKILL").returncode == -9
    left = names(tmp_path)
    assert len(left) == 3 and [name.split(".")[-1] for name in left] == ["partial", "partial", "jsonl"]
    with new_file(Path("out.jsonl")) as other:
        other.write(b"other")
        assert main(["sft", "convert", "in.jsonl", "-o", "out.jsonl", "--report", "report.jsonl"]) == 0
        assert len(SftDataset.from_jsonl("out.jsonl")) == 3000
        assert len(names(tmp_path)) == 4
        other.keep()
    assert names(tmp_path) == ["in.jsonl", "out.jsonl", "report.jsonl"]
    assert Path("out.jsonl").read_bytes() == b"other"
