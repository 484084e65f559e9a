"""Whole files of each format, and the bytes and reports that come of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmax.sft import SftDataset
from castform.sft.convert.files import convert_file

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ("openai.jsonl", (7, 4, 1, 3)),
        ("sharegpt.json", (3, 2, 0, 1)),
        ("alpaca.json", (4, 2, 0, 2)),
        ("prompt-completion.jsonl", (6, 3, 1, 3)),
    ],
)
def test_a_file_gives_its_bytes_and_its_report(tmp_path, source, counts):
    name = source.partition(".")[0]
    output, report = tmp_path / "out.jsonl", tmp_path / "report.jsonl"
    done = convert_file(GOLDEN / source, name=name, output=output, report=report)
    tally = done.tally
    assert (tally.rows, tally.written, tally.same, tally.refused) == counts
    assert output.read_text() == (GOLDEN / f"{name}.converted").read_text()
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    told = [{key: line[key] for key in ("line", "row", "status", "output_row", "codes")} for line in lines]
    assert told == [json.loads(line) for line in (GOLDEN / f"{name}.report").read_text().splitlines()]
    assert len(SftDataset.from_jsonl(output)) == tally.written
    again = convert_file(output, output=tmp_path / "again.jsonl")
    assert again.tally.same == tally.written
    assert (tmp_path / "again.jsonl").read_bytes() == output.read_bytes()
