"""docs/sft-data.md says what the code says: every code, every limit, and an example that is sound."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmax.sft import CODES, WARNING_CODES, SftDataset, limits, warnings_of
from benchmax.sft.row_warnings import MAX_EXAMPLES

PAGE = (Path(__file__).parents[4] / "docs" / "sft-data.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.*?) \| (.*?) \|$", re.MULTILINE)


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(("title", "codes"), [("Issues", CODES), ("Warnings", WARNING_CODES)])
def test_the_table_has_every_code_in_order_with_its_meaning(title, codes):
    rows = ROW.findall(section(title))[1:]
    assert [(f"{code}", meaning) for code, meaning in rows] == [
        (f"`{code}`", says) for code, says in codes.items()
    ]


def test_the_limits_are_those_of_the_code():
    numbers = [int(most.replace(",", "")) for _, most in ROW.findall(section("Limits"))[1:]]
    assert numbers == [
        limits.MAX_ROW_BYTES,
        limits.MAX_MESSAGES,
        limits.MAX_TOOLS,
        limits.MAX_METADATA_BYTES,
        limits.MAX_LEVELS,
        limits.MAX_INTEGER_DIGITS,
        limits.MAX_LINE_BYTES,
    ]
    assert limits.FORMAT in PAGE
    assert limits.RESERVED_PREFIX in PAGE
    assert f"the first {MAX_EXAMPLES} examples" in PAGE


def test_the_example_row_is_sound_and_without_warnings():
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    dataset = SftDataset.from_rows([json.loads(block)])
    assert warnings_of(dataset) == ()


@pytest.mark.parametrize("line", ["sound", "faulty"])
def test_the_code_on_the_page_runs(line, tmp_path, monkeypatch, capsys):
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    row = json.loads(block) if line == "sound" else {}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "sft-data.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    if line == "sound":
        assert printed == ["1 Answer in one word.", "()"]
    else:
        assert printed[0] == "train.jsonl: 1 issue, so no dataset was made"
        assert printed[-1] == "[(1, 'messages_missing')]"
