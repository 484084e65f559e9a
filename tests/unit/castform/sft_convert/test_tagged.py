"""Calls and results that are text in tags, as Hermes writes them: taken apart where that is beyond doubt."""

from __future__ import annotations

import pytest
from converting import assistant, call, calls, convert, refusal, result, tool, user

from castform.sft.convert.tagged import split_calls, split_results

WEATHER = '{"name": "find", "arguments": { "city":"Zürich", "n": 1.0 }}'
CALL = f"<tool_call>\n{WEATHER}\n</tool_call>"
OTHER = '<tool_call>{"arguments": {}, "name": "find"}</tool_call>'
ARGUMENTS = '{ "city":"Zürich", "n": 1.0 }'


def talk(*turns, **columns):
    speakers = {"u": "human", "a": "gpt", "t": "tool"}
    conversations = [{"from": speakers[who], "value": text} for who, text in turns]
    return {"conversations": conversations, "tools": [tool("find")], **columns}


def test_tags_become_calls_and_results_with_arguments_to_the_character():
    answer = "<tool_response>\n{'t': 3}\n</tool_response>\n<tool_response> \n\n</tool_response>\n"
    row = talk(("u", "q"), ("a", f"Let me look.\n{CALL}\n{OTHER}\n"), ("t", answer), ("a", "3 C"))
    found, notes = convert("sharegpt", row)
    assert found["messages"] == [
        user("q"),
        calls(call("find", ARGUMENTS, id="call_1"), call("find", "{}", id="call_2"), content="Let me look."),
        result("call_1", "{'t': 3}"),
        result("call_2", " \n"),
        assistant("3 C"),
    ]
    assert notes == [
        ("calls_from_text", "$.conversations[1].value"),
        ("results_from_text", "$.conversations[2].value"),
    ]


def test_a_result_may_be_a_turn_of_the_user_behind_a_call_and_only_there():
    answer = "<tool_response>12 C</tool_response>"
    found, _ = convert("sharegpt", talk(("u", answer), ("a", CALL), ("u", answer), ("a", "12")))
    assert found["messages"] == [
        user(answer),
        calls(call("find", ARGUMENTS, id="call_1"), content=None),
        result("call_1", "12 C"),
        assistant("12"),
    ]


def test_a_thought_that_speaks_of_the_tags_stays_before_the_call():
    thought = "<think>I use <tool_call>.</think>"
    found, _ = convert("sharegpt", talk(("u", "q"), ("a", f"{thought}\n{CALL}"), ("t", "12 C")))
    assert found["messages"][1]["content"] == thought
    assert found["messages"][2] == result("call_1", "12 C")


@pytest.mark.parametrize(
    "text",
    [
        f"{CALL} Done.",
        "<tool_call>{'name': 'find', 'arguments': {}}</tool_call>",
        '<tool_call>{"name": "find", "name": "find"}</tool_call>',
        f"<tool_call>[1]</tool_call>{CALL}",
        '<tool_call>{"name": "find", "arguments": {',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "find", "arguments": {"x": "<tool_call>"}}</tool_call>',
    ],
)
def test_tags_that_are_no_calls_at_the_end_are_refused_where_there_are_tools(text):
    note = refusal("sharegpt", talk(("u", "q"), ("a", text)))
    assert (note.code, note.location) == ("call_not_json", "$.conversations[1].value")


def test_without_tools_talk_of_tags_stays_text_and_a_call_is_refused():
    found, notes = convert("sharegpt", talk(("u", "q"), ("a", "Write <tool_call>."), tools=[]))
    assert found["messages"][1] == assistant("Write <tool_call>.")
    assert [code for code, _ in notes if code.endswith("_text")] == []
    assert refusal("sharegpt", talk(("u", "q"), ("a", CALL), tools=[])).code == "tools_required"


def test_every_result_needs_its_call_and_every_call_its_result():
    one = "<tool_response>1</tool_response>"
    note = refusal("sharegpt", talk(("u", "q"), ("a", CALL), ("t", one * 2), ("a", "x")))
    assert note.code == "result_unlinked"
    note = refusal("sharegpt", talk(("u", "q"), ("a", CALL + OTHER), ("t", one), ("a", "x")))
    assert note.code == "result_missing"


def test_splitting_takes_time_in_the_order_of_the_text():
    assert split_calls('<tool_call>{"a": 1' * 50_000) is None
    before, found = split_calls("<tool_call>" + '<tool_call>{"a": 1}</tool_call>' * 20_000)
    assert (before, len(found)) == ("<tool_call>", 20_000)
    assert split_results("<tool_response>" * 100_000) is None
    assert split_results("<tool_response>" + "x" * 1_000_000) is None
    assert split_results("") is None and split_results(" \n") is None
