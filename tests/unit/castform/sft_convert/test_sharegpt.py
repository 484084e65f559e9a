"""ShareGPT in its dialects: roles, calls as turns, odd turns, columns beside the conversation."""

from __future__ import annotations

import json

import pytest
from converting import assistant, call, calls, convert, outcome_of, refusal, result, tool, user


def turn(speaker, value, **more):
    return {"from": speaker, "value": value, **more}


def test_people_and_models_of_every_name_become_user_and_assistant():
    row = {
        "id": "a_1",
        "conversations": [
            turn("system", "s"),
            turn("Human", "q"),
            turn("gpt", "a"),
            turn("user", "r"),
            turn("chatgpt", "b"),
        ],
    }
    found, notes = convert("sharegpt", row)
    assert found == {
        "messages": [
            {"role": "system", "content": "s"},
            user("q"),
            assistant("a"),
            user("r"),
            assistant("b"),
        ],
        "metadata": {"id": "a_1"},
    }
    assert notes == [("kept_in_metadata", "$")]


def test_calls_are_turns_and_their_arguments_stay_as_they_were_spelled():
    value = '{"name": "area", "arguments": {"dims":[5.0, 3],  "n": "\\u00e9"}}'
    row = {
        "conversations": [
            turn("human", "q"),
            turn("function_call", value),
            turn("observation", '{"area": 15}'),
            turn("gpt", "15"),
        ],
        "system": "be kind",
        "tools": json.dumps([tool("area")["function"]]),
    }
    found, notes = convert("sharegpt", row)
    assert found == {
        "messages": [
            {"role": "system", "content": "be kind"},
            user("q"),
            calls(call("area", '{"dims":[5.0, 3],  "n": "\\u00e9"}', id="call_1")),
            result("call_1", '{"area": 15}'),
            assistant("15"),
        ],
        "tools": [tool("area")],
    }
    assert [code for code, _ in notes] == ["decoded", "call_wrapped"]


def test_parallel_calls_take_their_results_in_turn():
    value = '[{"name": "t", "arguments": {"a": 1}} , {"name":"t","arguments":"{ }"}]'
    row = {
        "conversations": [
            turn("human", "q"),
            turn("tool_call", value),
            turn("tool", "1"),
            turn("tool_response", "2"),
            turn("gpt", "x"),
        ],
        "tools": [tool("t")],
    }
    found, _ = convert("sharegpt", row)
    assert found["messages"][1:4] == [
        calls(call("t", '{"a": 1}', id="call_1"), call("t", "{ }", id="call_2")),
        result("call_1", "1"),
        result("call_2", "2"),
    ]


def test_a_row_that_ends_on_a_call_is_kept_with_an_empty_result():
    row = {
        "conversations": [turn("human", "q"), turn("function_call", '{"name": "t"}')],
        "tools": [tool("t")],
    }
    found, notes = convert("sharegpt", row)
    assert found["messages"][1:] == [calls(call("t", id="call_1")), result("call_1", "")]
    assert [code for code, _ in notes] == ["arguments_empty", "result_added"]


@pytest.mark.parametrize("value", ["area(5)", "{'name': 't'}", '{"nome": "t"}', "[1]", None, '{"name": 3}'])
def test_a_call_that_is_not_json_with_a_name_is_refused(value):
    row = {
        "conversations": [turn("human", "q"), turn("function_call", value), turn("gpt", "a")],
        "tools": [tool("t")],
    }
    note = refusal("sharegpt", row)
    assert (note.code, note.location) == ("call_not_json", "$.conversations[1].value")


def test_a_result_without_a_call_is_refused():
    note = refusal(
        "sharegpt", {"conversations": [turn("human", "q"), turn("observation", "1"), turn("gpt", "a")]}
    )
    assert (note.code, note.location) == ("result_unlinked", "$.conversations[1]")


def test_an_odd_number_of_turns_keeps_the_row_and_every_turn():
    row = {"conversations": [turn("human", "1"), turn("gpt", "one"), turn("human", "2?")]}
    found, notes = convert("sharegpt", row)
    assert [message["content"] for message in found["messages"]] == ["1", "one", "2?"]
    assert notes == [("ends_without_answer", "$.conversations[2]")]


def test_a_conversation_that_starts_with_the_model_or_repeats_a_role_is_kept_and_told():
    row = {"conversations": [turn("gpt", "a"), turn("human", "b"), turn("human", "c"), turn("gpt", "d")]}
    found, notes = convert("sharegpt", row)
    assert [message["content"] for message in found["messages"]] == list("abcd")
    assert notes == [("starts_with_assistant", "$.conversations[0]"), ("roles_repeat", "$.conversations[2]")]


def test_turns_with_role_and_content_under_conversations_are_read_too():
    row = {"conversations": [user("q"), assistant("a", weight=0), user("r"), assistant("b")]}
    assert convert("sharegpt", row)[0] == {"messages": row["conversations"]}


def test_flags_on_turns_become_weights():
    row = {
        "conversations": [
            turn("human", "q", train=False),
            turn("gpt", "a", train=False),
            turn("human", "r"),
            turn("gpt", "b", weight=1),
        ]
    }
    found, _ = convert("sharegpt", row)
    assert [message.get("weight") for message in found["messages"]] == [None, 0, None, 1]
    row["conversations"][0]["train"] = True
    assert refusal("sharegpt", row).code == "unknown_key"


def test_two_system_messages_that_differ_are_refused_and_equal_ones_are_one():
    row = {"conversations": [turn("system", "a"), turn("human", "q"), turn("gpt", "b")], "system": "a"}
    assert [message["role"] for message in convert("sharegpt", row)[0]["messages"]] == [
        "system",
        "user",
        "assistant",
    ]
    assert refusal("sharegpt", {**row, "system": "other"}).code == "columns_clash"
    assert convert("sharegpt", {**row, "system": ""})[0]["messages"][0] == {"role": "system", "content": "a"}


@pytest.mark.parametrize(
    ("row", "code", "location"),
    [
        ({"conversations": [turn("alien", "q")]}, "speaker_unknown", "$.conversations[0].from"),
        (
            {"conversations": [turn("human", "q"), {"value": "x"}]},
            "speaker_unknown",
            "$.conversations[1].role",
        ),
        (
            {"conversations": [turn("human", ""), turn("gpt", "a")]},
            "content_empty",
            "$.conversations[0].value",
        ),
        ({"conversations": [turn("human", "q"), turn("gpt", None)]}, "assistant_empty", "$.conversations[1]"),
        (
            {"conversations": [turn("human", "q"), turn("gpt", "a", content="b")]},
            "columns_clash",
            "$.conversations[1]",
        ),
        ({"conversations": "text"}, "column_type", "$.conversations"),
        ({"conversations": "[broken"}, "column_type", "$.conversations"),
        ({"conversations": [3]}, "message_not_object", "$.conversations[0]"),
        ({"conversations": [], "system": 3}, "column_type", "$.system"),
        ({"conversations": [turn("human", "q")], "chosen": 1, "rejected": 2}, "preference_pair", "$"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(row, code, location):
    outcome = outcome_of("sharegpt", row)
    assert outcome.data is None
    assert (outcome.notes[0].code, outcome.notes[0].location) == (code, location)


def test_a_conversation_that_is_stored_as_text_is_decoded():
    row = {"conversations": json.dumps([turn("human", "q"), turn("gpt", "a")])}
    found, notes = convert("sharegpt", row)
    assert found == {"messages": [user("q"), assistant("a")]}
    assert notes == [("decoded", "$.conversations")]
