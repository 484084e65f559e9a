"""Rows: read from JSONL, made into examples, split so that no prompt lies on both sides."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.envs import Example, canonical_example_id
from castform.compose.rows import (
    Row,
    RowFaults,
    answer_field,
    describe_missing,
    hold_out,
    make_examples,
    number_rows,
    read_jsonl,
)


def write(folder, *lines):
    path = folder / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_rows_carry_their_line_and_blank_lines_count(tmp_path):
    rows, faults = read_jsonl(write(tmp_path, '\ufeff{"a": 1}', "", "  ", '{"a": "x\u2028y"}'), "rows.jsonl")
    assert faults == []
    assert [(row.place, row.fields) for row in rows] == [
        ("rows.jsonl:1", {"a": 1}),
        ("rows.jsonl:4", {"a": "x\u2028y"}),
    ]


def test_every_broken_line_is_named_up_to_five_and_the_rest_counted(tmp_path):
    rows, faults = read_jsonl(write(tmp_path, '{"a": 1}', "{bad", "[1]", "7", *["{"] * 5), "q.jsonl")
    assert len(rows) == 1
    assert faults[0].startswith("q.jsonl:2 is not JSON: ")
    assert faults[1:3] == ["q.jsonl:3 is list, not a JSON object", "q.jsonl:4 is int, not a JSON object"]
    assert faults[4].startswith("q.jsonl:6 is not JSON")
    assert faults[5:] == ["3 more lines of q.jsonl cannot be used"]


def test_five_broken_lines_are_told_without_a_count(tmp_path):
    _, faults = read_jsonl(write(tmp_path, *["{"] * 5), "q.jsonl")
    assert len(faults) == 5
    assert all(fault.startswith(f"q.jsonl:{n} is not JSON") for n, fault in enumerate(faults, start=1))


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_a_file_without_rows_is_a_fault(tmp_path, content):
    (tmp_path / "q.jsonl").write_bytes(content)
    assert read_jsonl(tmp_path / "q.jsonl", "q.jsonl") == ([], ["the file q.jsonl has no rows"])


def test_a_file_that_is_not_there_or_no_text_says_so(tmp_path):
    _, (fault,) = read_jsonl(tmp_path / "gone.jsonl", "gone.jsonl")
    assert fault == f"the file gone.jsonl does not exist; a relative path starts at {tmp_path}"
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe{}")
    _, (fault,) = read_jsonl(tmp_path / "bytes.jsonl", "bytes.jsonl")
    assert fault.startswith("the file bytes.jsonl cannot be read: 'utf-8' codec")
    _, (fault,) = read_jsonl(tmp_path, "folder.jsonl")
    assert fault == "the file folder.jsonl cannot be read: Is a directory"


def fill(row):
    return [{"role": "user", "content": row["q"]}]


def test_a_row_is_named_by_its_id_or_else_by_what_it_holds():
    rows = number_rows([{"q": "a", "id": "x"}, {"q": "b", "id": 7}, {"q": "c"}, {"q": "d", "id": " "}])
    examples = make_examples(rows, fill, RowFaults())
    assert [e.id for e in examples] == [
        "x",
        "7",
        canonical_example_id({"q": "c"}),
        canonical_example_id({"q": "d", "id": " "}),
    ]
    assert examples[0].payload == {"q": "a", "id": "x", "prompt_messages": fill({"q": "a"})}


def test_rows_that_cannot_be_examples_are_faults_told_once_with_their_count():
    faults = RowFaults()
    rows = number_rows(
        [{"q": "a"}, {"q": "a"}, {"q": "a"}, {"q": "b", "n": float("nan")}, {"q": "c", "n": 2**60}]
    )
    assert len(make_examples(rows, fill, faults)) == 1
    assert faults.lines() == [
        "row 2 repeats row 1 (and 1 more rows)",
        "row 4 cannot be used: nan is not a finite number",
        "row 5 cannot be used: integers beyond 2^53-1 are not exact in JSON; give them as text",
    ]


def test_without_a_prompt_a_row_needs_usable_messages_of_its_own():
    faults = RowFaults()
    rows = number_rows([{"prompt_messages": []}, {"prompt_messages": [{"role": "user", "content": "q"}]}])
    assert [e.payload for e in make_examples(rows, None, faults)] == [rows[1].fields]
    assert faults.lines() == ["row 1 cannot be used: prompt_messages must have at least one message"]


def examples_of(prompts):
    return [
        Example(str(n), {"prompt_messages": [{"role": "user", "content": p}]}) for n, p in enumerate(prompts)
    ]


@settings(deadline=None, max_examples=60)
@given(
    prompts=st.lists(st.text(max_size=3), min_size=2, max_size=30),
    share=st.floats(1 / 64, 63 / 64, width=32),
)
def test_held_out_rows_and_the_rest_share_no_prompt_and_are_all_rows_in_order(prompts, share):
    examples = examples_of(prompts)
    train, held = hold_out(examples, share)
    assert sorted([*train, *held], key=lambda e: int(e.id)) == examples
    assert [int(e.id) for e in train] == sorted(int(e.id) for e in train)
    shown = [{str(e.payload["prompt_messages"]) for e in side} for side in (train, held)]
    assert not shown[0] & shown[1]
    assert (bool(train), bool(held)) == ((True, True) if len(set(prompts)) > 1 else (False, True))


def test_a_row_stays_on_its_side_when_others_are_added():
    few, many = examples_of(map(str, range(40))), examples_of(map(str, range(400)))
    held_few, held_many = ({e.id for e in hold_out(rows, 0.2)[1]} for rows in (few, many))
    assert held_few == {id for id in held_many if int(id) < 40}
    assert 0.15 < len(held_many) / 400 < 0.25


def test_the_share_is_of_the_rows_and_the_smallest_share_still_holds_one_out():
    rows = examples_of(map(str, range(10)))
    assert len(hold_out(rows, 1e-9)[1]) == 1
    assert len(hold_out(rows, 1 - 1e-9)[0]) == 1


@pytest.mark.parametrize(
    ("row", "gold", "field"),
    [
        ({"ground_truth": 1, "answer": 2}, "", "ground_truth"),
        ({"answer": 2}, "", "answer"),
        ({"solution": 3, "answer": 2}, "solution", "solution"),
        ({"answer": 2}, "solution", None),
        ({}, "", None),
    ],
)
def test_the_right_answer_is_where_gold_says_or_in_ground_truth_or_answer(row, gold, field):
    assert answer_field(row, gold) == field


def test_a_missing_field_names_all_that_there_are_and_a_close_one():
    row = {"Question": 1, "answer": 2}
    told = "has no field 'qestion' (it has 'Question', 'answer'; did you mean 'Question'?)"
    assert describe_missing("qestion", row) == told
    assert describe_missing("x", row) == "has no field 'x' (it has 'Question', 'answer')"
    assert describe_missing("x", {}) == "has no field 'x' (it has none)"


def test_faults_are_told_once_a_kind_with_the_first_row():
    faults = RowFaults()
    for place, fault in (
        ("row 1", "is bad"),
        ("row 2", "is worse"),
        ("row 3", "is bad"),
        ("row 4", "is bad"),
    ):
        faults.add(place, fault)
    assert faults.lines() == ["row 1 is bad (and 2 more rows)", "row 2 is worse"]
    assert Row(place="row 1", fields={}).id == ""
