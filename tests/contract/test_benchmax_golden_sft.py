"""The golden behaviours of benchmax.sft: fixture files in, canonical bytes or exact issues out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmax.sft import CODES, SftDataset, SftDatasetError

GOLDEN = Path(__file__).parents[1] / "golden" / "sft_v1"
EXPECTED: dict[str, list[list[Any]]] = json.loads((GOLDEN / "expected_issues.json").read_text())
ROW: dict[str, Any] = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}


def issues_of(rows: list[Any]) -> list[tuple[str, str]]:
    """Return (code, location) of every issue, none when the rows are sound."""
    try:
        SftDataset.from_rows(rows)
    except SftDatasetError as error:
        return [(issue.code, issue.location) for issue in error.issues]
    return []


@pytest.mark.parametrize("name", ["plain", "masked", "tools"])
def test_a_valid_file_has_exactly_these_canonical_bytes(name, tmp_path):
    dataset = SftDataset.from_jsonl(GOLDEN / "valid" / f"{name}.jsonl")
    canonical = (GOLDEN / "valid" / f"{name}.canonical.jsonl").read_bytes()
    assert dataset.to_jsonl_bytes() == canonical
    assert SftDataset.from_jsonl(GOLDEN / "valid" / f"{name}.canonical.jsonl").to_jsonl_bytes() == canonical
    assert SftDataset.from_rows(dataset.rows).to_jsonl_bytes() == canonical
    assert b"".join(dataset.iterate_jsonl_bytes()) == canonical


def test_every_invalid_file_is_expected_and_the_other_way_round():
    assert sorted(EXPECTED) == sorted(path.stem for path in (GOLDEN / "invalid").iterdir())


@pytest.mark.parametrize("name", EXPECTED)
def test_an_invalid_file_has_exactly_these_issues_in_order(name):
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_jsonl(GOLDEN / "invalid" / f"{name}.jsonl")
    found = [[issue.line, issue.row, issue.location, issue.code] for issue in caught.value.issues]
    assert found == EXPECTED[name]


TOOL: dict[str, Any] = {"type": "function", "function": {"name": "t", "parameters": {"type": "object"}}}
BUILT: dict[str, tuple[Any, str]] = {
    "key_not_string": (ROW | {"metadata": {1: 2}}, "$.metadata"),
    "not_json_type": (ROW | {"metadata": {"x": {1}}}, "$.metadata.x"),
    "too_many_messages": ({"messages": ROW["messages"] * 513}, "$.messages"),
    "too_many_tools": (
        ROW | {"tools": [TOOL | {"function": TOOL["function"] | {"name": f"t{n}"}} for n in range(129)]},
        "$.tools",
    ),
    "metadata_too_large": (ROW | {"metadata": {"x": "y" * 65_536}}, "$.metadata"),
    "row_too_large": (
        {"messages": [{"role": "user", "content": "x" * 1_048_576}, ROW["messages"][1]]},
        "$",
    ),
}
"""Codes of what no file can hold, or of what would make a large one: a row and its one location."""


@pytest.mark.parametrize("code", BUILT)
def test_a_row_that_no_golden_file_holds_has_exactly_this_issue(code):
    row, location = BUILT[code]
    assert issues_of([row]) == [(code, location)]


def test_every_code_has_a_golden_case():
    in_files = {code for issues in EXPECTED.values() for _, _, _, code in issues}
    assert in_files | BUILT.keys() == CODES.keys()
    assert not in_files & BUILT.keys()


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_64_levels_are_fine_and_the_65th_is_not():
    assert issues_of([ROW | {"metadata": {"x": nested(62)}}]) == []
    assert issues_of([ROW | {"metadata": {"x": nested(63)}}]) == [("too_deep", "$.metadata.x" + 62 * "[0]")]


def test_a_scalar_in_the_64th_level_is_fine():
    value = nested(62)
    deepest = value
    while deepest:
        deepest = deepest[0]
    deepest.append("x")
    assert issues_of([ROW | {"metadata": {"x": value}}]) == []


def test_1024_messages_are_fine_and_1025_are_not():
    pair = ROW["messages"]
    assert issues_of([{"messages": pair * 512}]) == []
    assert issues_of([{"messages": pair * 512 + pair[1:]}]) == [("too_many_messages", "$.messages")]


def test_128_tools_are_fine_and_129_are_not():
    tools = [
        {"type": "function", "function": {"name": f"t{index}", "parameters": {"type": "object"}}}
        for index in range(129)
    ]
    assert issues_of([ROW | {"tools": tools[:128]}]) == []
    assert issues_of([ROW | {"tools": tools}]) == [("too_many_tools", "$.tools")]


def test_a_row_of_exactly_a_mebibyte_of_utf8_is_fine_and_one_byte_more_is_not():
    frame = len(SftDataset.from_rows([ROW]).to_jsonl_bytes()) - len("q\n")

    def row(size: int) -> dict[str, Any]:
        text = "é" * ((size - frame) // 2) + "x" * ((size - frame) % 2)
        return {"messages": [{"role": "user", "content": text}, ROW["messages"][1]]}

    assert len(SftDataset.from_rows([row(1_048_576)]).to_jsonl_bytes()) == 1_048_576 + 1
    assert issues_of([row(1_048_577)]) == [("row_too_large", "$")]
    assert issues_of([row(1_100_000)]) == [("row_too_large", "$")]


def test_metadata_of_exactly_64_kibibytes_is_fine_and_one_byte_more_is_not():
    assert issues_of([ROW | {"metadata": {"x": "y" * (65_536 - 8)}}]) == []
    assert issues_of([ROW | {"metadata": {"x": "y" * (65_536 - 7)}}]) == [
        ("metadata_too_large", "$.metadata")
    ]


def test_reserved_names_are_free_below_the_top_of_metadata():
    assert issues_of([ROW | {"metadata": {"nested": {"_castform_x": 1}, "inner": {"tools": []}}}]) == []


def test_blank_lines_count_as_lines_and_not_as_rows(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(f"\n \t\n{json.dumps(ROW)}\n\n{{bad")
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_jsonl(path)
    (issue,) = caught.value.issues
    assert (issue.line, issue.row, issue.location, issue.code) == (5, 1, "$", "invalid_json")


def test_lines_end_at_newlines_only_and_a_carriage_return_before_one_is_dropped(tmp_path):
    texts = ["a\u2028b\u2029", "c\u0085d\x1c"]
    rows = [
        {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]}
        for text in texts
    ]
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\r\n".join(json.dumps(row, ensure_ascii=False).encode() for row in rows) + b"\r\n")
    dataset = SftDataset.from_jsonl(path)
    assert [row["messages"][0]["content"] for row in dataset] == texts
    path.write_bytes(path.read_bytes() + b'{"messages": [}\n')
    with pytest.raises(SftDatasetError, match=r"line 3, row 2"):
        SftDataset.from_jsonl(path)


def test_rows_are_decoupled_from_the_objects_of_the_caller():
    given = json.loads(json.dumps(ROW))
    dataset = SftDataset.from_rows([given])
    given["messages"][0]["content"] = "changed"
    assert dataset.rows[0] == ROW


def test_a_late_result_has_both_of_its_issues():
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    row = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "user", "content": "well?"},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "assistant", "content": "a"},
        ],
        "tools": [{"type": "function", "function": {"name": "t", "parameters": {}}}],
    }
    with pytest.raises(
        ValueError, match=r"(?s)have no tool result.*after its tool-call window closed"
    ) as caught:
        SftDataset.from_rows([row])
    assert isinstance(caught.value, SftDatasetError)
    assert isinstance(caught.value.issues, tuple)
    assert [issue.code for issue in caught.value.issues] == ["result_missing", "result_late"]


@pytest.mark.parametrize("role", [["user"], {"user": 1}, None, 3, True, "User", ""])
def test_a_role_of_any_kind_is_an_issue_and_no_crash(role):
    row = {"messages": [{"role": role, "content": "q"}, ROW["messages"][1]]}
    assert issues_of([row]) == [("role_unknown", "$.messages[0].role")]


def test_importing_it_loads_the_standard_library_only():
    code = "import sys; before = set(sys.modules); import benchmax.sft; print(*(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots = {name.partition(".")[0] for name in found.stdout.split()}
    assert roots - sys.stdlib_module_names == {"benchmax"}
    assert not re.search(r"benchmax\.(?!sft)", found.stdout)
    assert not roots & {"asyncio", "http", "socket", "subprocess"}
