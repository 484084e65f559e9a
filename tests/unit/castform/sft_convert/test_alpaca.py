"""Alpaca rows."""

from __future__ import annotations

import pytest
from converting import assistant, convert, outcome_of, refusal, user


def test_the_input_stands_below_the_instruction_and_an_empty_one_leaves_no_trace():
    found, notes = convert("alpaca", {"instruction": "Add.", "input": "1 2", "output": "3"})
    assert (found, notes) == ({"messages": [user("Add.\n1 2"), assistant("3")]}, [])
    assert convert("alpaca", {"instruction": "Add.", "input": "", "output": "3"})[0]["messages"][0] == user(
        "Add."
    )
    assert convert("alpaca", {"instruction": "", "input": "1 2", "output": "3"})[0]["messages"][0] == user(
        "1 2"
    )


def test_system_and_history_come_first_and_answers_of_the_history_are_trained_on():
    row = {
        "instruction": "c",
        "input": None,
        "output": " d\n",
        "system": "s",
        "history": [["a", "b"]],
        "id": 4,
        "text": "all",
    }
    found, notes = convert("alpaca", row)
    assert found == {
        "messages": [
            {"role": "system", "content": "s"},
            user("a"),
            assistant("b"),
            user("c"),
            assistant(" d\n"),
        ],
        "metadata": {"id": 4, "text": "all"},
    }
    assert notes == [("kept_in_metadata", "$"), ("nulls_removed", "$.input")]


@pytest.mark.parametrize("history", [None, "", []])
def test_no_history_is_no_history(history):
    found, _ = convert("alpaca", {"instruction": "c", "output": "d", "history": history})
    assert found == {"messages": [user("c"), assistant("d")]}


@pytest.mark.parametrize(
    ("change", "code", "location"),
    [
        ({"output": ""}, "completion_missing", "$.output"),
        ({"output": None}, "completion_missing", "$.output"),
        ({"output": ["a"]}, "column_type", "$.output"),
        ({"instruction": ""}, "content_empty", "$.instruction"),
        ({"instruction": {"a": 1}}, "column_type", "$.instruction"),
        ({"history": [["a"]]}, "history_invalid", "$.history[0]"),
        ({"history": [["a", "b"], ["c", None]]}, "history_invalid", "$.history[1]"),
        ({"history": [["a", ""]]}, "assistant_empty", "$.history[0]"),
        ({"history": [["", "b"]]}, "content_empty", "$.history[0][0]"),
        ({"history": {"a": "b"}}, "history_invalid", "$.history"),
        ({"kto_tag": False}, "preference_rejected", "$.kto_tag"),
        ({"images": ["x.png"]}, "multimodal", "$.images"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(change, code, location):
    outcome = outcome_of("alpaca", {"instruction": "c", "output": "d", **change})
    assert outcome.data is None
    assert (outcome.notes[0].code, outcome.notes[0].location) == (code, location)


def test_a_pair_of_answers_is_named():
    assert refusal("alpaca", {"instruction": "c", "chosen": "a", "rejected": "b"}).code == "preference_pair"
