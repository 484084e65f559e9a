"""Every row of the corpus gets its verdict. A row says why; `repeat` and `tail` build the long texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmax.rewards import match_answer

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("corpus.jsonl").read_text(encoding="utf-8").splitlines()
]


def text_of(row: dict[str, Any]) -> str:
    return str(row["text"]) * row.get("repeat", 1) + row.get("tail", "")


def choices_of(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("kind", "options", "ignore_articles") if name in row}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['rule']}: {row['why']}")
def test_a_row_gets_its_verdict(row: dict[str, Any]) -> None:
    assert match_answer(text_of(row), row["gold"], **choices_of(row)) == row["verdict"]


def test_the_corpus_is_large_and_every_row_says_why_and_is_there_once() -> None:
    assert len(ROWS) >= 150
    assert all(row["why"].strip() and row["verdict"] in (0, 1) for row in ROWS)
    rows = [json.dumps({**row, "why": "", "verdict": "", "rule": ""}, sort_keys=True) for row in ROWS]
    assert len(set(rows)) == len(rows)
    assert min(sum(row["verdict"] == verdict for row in ROWS) for verdict in (0, 1)) >= 100


def test_every_rule_has_right_and_wrong_answers() -> None:
    rules = {row["rule"] for row in ROWS}
    assert len(rules) >= 10
    assert all({row["verdict"] for row in ROWS if row["rule"] == rule} == {0, 1} for rule in rules)
