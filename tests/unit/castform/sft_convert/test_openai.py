"""Finetuning files of OpenAI: what the field writes, what becomes of it, what is refused."""

from __future__ import annotations

import pytest
from converting import assistant, call, calls, convert, outcome_of, refusal, result, tool, user


def test_a_row_that_keeps_the_format_is_written_as_it_is_and_has_no_note():
    row = {
        "messages": [
            user("q"),
            calls(call("t", '{ "a":1.0 }')),
            result("c1", ""),
            assistant("x", weight=0),
            assistant("y"),
        ],
        "tools": [tool("t")],
        "metadata": {"messages": [None], "id": 1},
    }
    outcome = outcome_of("openai", row)
    assert outcome.is_same and outcome.notes == ()
    assert convert("openai", row)[0] == row


def test_a_row_that_ends_on_calls_gets_empty_results_behind_them():
    row = {
        "messages": [user("q"), calls(call("t"), call("t", id="c2")), result("c2", "two")],
        "tools": [tool("t")],
    }
    found, notes = convert("openai", row)
    assert found["messages"][2:] == [result("c1", ""), result("c2", "two")]
    assert notes == [("result_added", "$.messages[1].tool_calls")]


def test_assistant_text_before_a_call_is_fine():
    row = {"messages": [user("Hi"), assistant("Let me look."), calls(call("t"))], "tools": [tool("t")]}
    found, notes = convert("openai", row)
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "assistant", "tool"]
    assert notes == [("result_added", "$.messages[2].tool_calls"), ("roles_repeat", "$.messages[2]")]


def test_a_call_without_its_result_before_an_answer_is_refused_by_name():
    note = refusal(
        "openai", {"messages": [user("q"), calls(call("t", id="c77")), assistant("40")], "tools": [tool("t")]}
    )
    assert (note.code, note.location) == ("result_missing", "$.messages[1].tool_calls")
    assert "'c77'" in note.message


@pytest.mark.parametrize(
    ("arguments", "kept", "code"),
    [
        ('{ "city":"Oslo" }', '{ "city":"Oslo" }', None),
        ('{"a":"\\u00e9"}', '{"a":"\\u00e9"}', None),
        ('"{\\"city\\": \\"Oslo\\"}"', '{"city": "Oslo"}', "arguments_decoded"),
        (' "{ }"\n', "{ }", "arguments_decoded"),
        ({"b": 1, "a": "é"}, '{"b": 1, "a": "é"}', "arguments_encoded"),
        ("", "{}", "arguments_empty"),
        (" \n", "{}", "arguments_empty"),
        (None, "{}", "arguments_empty"),
    ],
)
def test_arguments_stay_to_the_character_unless_they_were_encoded_otherwise(arguments, kept, code):
    row = {
        "messages": [user("q"), calls(call("t", arguments)), result("c1"), assistant("a")],
        "tools": [tool("t")],
    }
    found, notes = convert("openai", row)
    assert found["messages"][1]["tool_calls"][0]["function"]["arguments"] == kept
    assert [each for each, _ in notes] == ([code] if code else [])


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("{'city': 'Oslo'}", "arguments_invalid_json"),
        ('{"city": "Oslo"', "arguments_invalid_json"),
        ('["Oslo"]', "arguments_not_object"),
        ('{"city": NaN}', "arguments_invalid_json"),
        ("null", "arguments_not_object"),
        ('"plain"', "arguments_not_object"),
        ('"{\\"a\\": }"', "arguments_not_object"),
        ('{"a":1,"a":2}', "arguments_invalid_json"),
        (7, "arguments_not_string"),
    ],
)
def test_arguments_that_are_no_object_are_refused_with_function_and_call(arguments, code):
    row = {
        "messages": [user("q"), calls(call("get_weather", arguments, id="call_7"))],
        "tools": [tool("get_weather")],
    }
    note = refusal("openai", row)
    assert (note.code, note.location) == (code, "$.messages[1].tool_calls[0].function.arguments")
    assert "get_weather" in note.message and "call_7" in note.message


def test_the_older_spelling_becomes_tools_and_calls():
    row = {
        "messages": [
            user("q"),
            assistant(None, function_call={"name": "t", "arguments": '{ "a": 1}'}),
            {"role": "function", "name": "t", "content": "1"},
            assistant("ok"),
        ],
        "functions": [tool("t")["function"]],
    }
    found, notes = convert("openai", row)
    assert found == {
        "messages": [
            user("q"),
            {**calls(call("t", '{ "a": 1}', id="call_1")), "content": None},
            result("call_1", "1"),
            assistant("ok"),
        ],
        "tools": [tool("t")],
    }
    assert {code for code, _ in notes} == {
        "function_renamed",
        "role_renamed",
        "call_id_added",
        "name_redundant",
    }


def test_an_older_result_that_answers_nothing_is_refused():
    row = {"messages": [user("q"), {"role": "function", "name": "t", "content": "1"}, assistant("ok")]}
    note = refusal("openai", row)
    assert (note.code, note.location) == ("result_unlinked", "$.messages[1]")
    assert "'t'" in note.message


def test_reused_call_ids_are_told_apart_with_their_results():
    row = {
        "messages": [
            user("q"),
            calls(call("t")),
            result("c1", "one"),
            calls(call("t")),
            result("c1", "two"),
            assistant("a"),
        ],
        "tools": [tool("t")],
    }
    found, notes = convert("openai", row)
    assert found["messages"][3:5] == [calls(call("t", id="call_2")), result("call_2", "two")]
    assert notes[0] == ("call_id_renamed", "$.messages[3].tool_calls[0].id")


def test_a_new_id_is_not_one_that_a_later_call_of_the_message_has():
    made = [{"type": "function", "function": {"name": "t", "arguments": "{}"}}, call("t", id="call_1")]
    found, _ = convert("openai", {"messages": [user("q"), calls(*made)], "tools": [tool("t")]})
    assert [each["id"] for each in found["messages"][1]["tool_calls"]] == ["call_2", "call_1"]


def test_results_of_parallel_calls_are_put_in_the_order_of_the_calls():
    row = {
        "messages": [
            user("q"),
            calls(call("t", id="a"), call("t", id="b")),
            result("b", "2"),
            result("a", "1"),
            assistant("x"),
        ],
        "tools": [tool("t")],
    }
    found, notes = convert("openai", row)
    assert found["messages"][2:4] == [result("a", "1"), result("b", "2")]
    assert notes == [("results_reordered", "$.messages[1].tool_calls")]


def test_a_result_of_an_unknown_call_is_refused_where_it_stands():
    row = {
        "messages": [user("q"), calls(call("t")), result("c1"), result("zz"), assistant("x")],
        "tools": [tool("t")],
    }
    note = refusal("openai", row)
    assert (note.code, note.location) == ("result_unknown_id", "$.messages[3].tool_call_id")


def test_text_parts_are_joined_and_images_refused():
    parts = [{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}]
    found, notes = convert("openai", {"messages": [user(parts), assistant([{"type": "text", "text": "c"}])]})
    assert [message["content"] for message in found["messages"]] == ["a\nb", "c"]
    assert notes == [("content_joined", "$.messages[0].content"), ("content_joined", "$.messages[1].content")]
    parts.append({"type": "image_url", "image_url": {"url": "http://x"}})
    note = refusal("openai", {"messages": [user(parts), assistant("c")]})
    assert (note.code, note.location) == ("multimodal", "$.messages[0].content[2]")
    assert "image_url" in note.message
    assert (
        refusal("openai", {"messages": [user("x"), assistant("c")], "images": ["a.png"]}).code == "multimodal"
    )


def test_roles_names_and_other_keys_are_kept_and_told():
    row = {
        "id": "r1",
        "parallel_tool_calls": False,
        "messages": [
            {"role": "developer", "content": "be brief"},
            user("q", name="Ann"),
            assistant("a", reasoning_content="hm", audio=None),
        ],
    }
    found, notes = convert("openai", row)
    assert found["messages"] == [{"role": "system", "content": "be brief"}, user("q"), assistant("a")]
    assert found["metadata"] == {
        "id": "r1",
        "parallel_tool_calls": False,
        "source_fields": [
            {"message": 1, "fields": {"name": "Ann"}},
            {"message": 2, "fields": {"reasoning_content": "hm"}},
        ],
    }
    assert notes == [
        ("role_renamed", "$.messages[0].role"),
        ("kept_in_metadata", "$.messages[1]"),
        ("reasoning_not_trained", "$.messages[2].reasoning_content"),
        ("kept_in_metadata", "$.messages[2]"),
        ("kept_in_metadata", "$"),
        ("nulls_removed", "$.messages[2].audio"),
    ]


def test_reserved_names_of_metadata_are_renamed_and_nothing_is_overwritten():
    row = {
        "messages": [user("q"), assistant("a")],
        "metadata": {"_castform_x": 1, "castform_x": 2, "tools": 3, "id": 4},
        "id": 5,
        "source_fields": 6,
    }
    found, notes = convert("openai", row)
    assert found["metadata"] == {
        "castform_x": 1,
        "castform_x_2": 2,
        "source_tools": 3,
        "id": 4,
        "id_2": 5,
        "source_fields": 6,
    }
    assert [place for code, place in notes if code == "metadata_renamed"] == [
        "$.metadata._castform_x",
        "$.metadata.castform_x",
        "$.metadata.tools",
        "$.id",
    ]


@pytest.mark.parametrize("weight", [True, "1", -1, 0.5, 2])
def test_weights_other_than_0_and_1_are_refused_and_never_rounded(weight):
    note = refusal("openai", {"messages": [user("q"), assistant("x", weight=weight), assistant("y")]})
    assert (note.code, note.location) == ("weight_invalid", "$.messages[1].weight")


def test_weights_in_other_words_become_integers():
    row = {
        "messages": [
            user("q", weight=0, train=False),
            assistant("x", weight=0.0),
            user("r", train=False),
            assistant("y", train=True),
        ]
    }
    found, notes = convert("openai", row)
    assert [message.get("weight") for message in found["messages"]] == [None, 0, None, 1]
    assert ("weight_integer", "$.messages[1].weight") in notes
    assert ("weight_removed", "$.messages[0].weight") in notes
    assert ("weight_from_flag", "$.messages[3].train") in notes


def test_a_weight_on_a_user_message_is_refused():
    note = refusal("openai", {"messages": [user("q", weight=1), assistant("x")]})
    assert note.code == "unknown_key" and "weight belongs to assistant" in note.message


def test_nulls_of_a_table_are_removed_and_counted_together():
    row = {
        "messages": [
            {"role": "user", "content": "q", "tool_calls": None, "name": None, "weight": None},
            {"role": "assistant", "content": "a", "tool_calls": None, "function_call": None},
        ],
        "tools": None,
        "metadata": None,
    }
    outcome = outcome_of("openai", row)
    assert convert("openai", row)[0] == {"messages": [user("q"), assistant("a")]}
    assert [note.code for note in outcome.notes] == ["nulls_removed"]
    assert outcome.notes[0].message.startswith("7 removed")


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        (tool("t")["function"], ["call_wrapped"]),
        ({"type": "function", **tool("t")["function"]}, ["call_wrapped"]),
        ({"function": tool("t")["function"]}, ["call_wrapped"]),
        ([tool("t"), tool("t")], ["tool_duplicate_removed"]),
        (
            '[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object","properties":{}}}}]',
            ["decoded"],
        ),
        (
            {"type": "function", "function": {"name": "t", "description": "d", "parameters": None}},
            ["parameters_added", "nulls_removed"],
        ),
        (tool("t", strict=True), ["kept_in_metadata"]),
    ],
)
def test_definitions_of_tools_in_every_spelling_come_out_alike(given, codes):
    tools = given if isinstance(given, (list, str)) else [given]
    row = {"messages": [user("q"), calls(call("t")), result("c1"), assistant("a")], "tools": tools}
    found, notes = convert("openai", row)
    assert found["tools"] == [tool("t")]
    assert [code for code, _ in notes] == codes


def test_two_lists_of_tools_that_differ_are_refused_and_equal_ones_are_one():
    row = {
        "messages": [user("q"), assistant("a")],
        "tools": [tool("a")],
        "functions": [tool("b")["function"]],
    }
    assert refusal("openai", row).code == "columns_clash"
    found, _ = convert("openai", {**row, "functions": [tool("a")["function"]]})
    assert found["tools"] == [tool("a")]


def test_a_call_of_a_tool_that_is_not_defined_is_refused():
    assert refusal("openai", {"messages": [user("q"), calls(call("t"))]}).code == "tools_required"
    note = refusal("openai", {"messages": [user("q"), calls(call("t"))], "tools": [tool("u")]})
    assert (note.code, note.location) == (
        "call_undefined_function",
        "$.messages[1].tool_calls[0].function.name",
    )


def test_a_refusal_is_what_the_model_said():
    found, notes = convert("openai", {"messages": [user("q"), assistant(None, refusal="No.")]})
    assert found["messages"][1] == assistant("No.")
    assert notes == [("refusal_as_content", "$.messages[1].refusal")]


@pytest.mark.parametrize(
    ("content", "text", "code"),
    [
        (None, "", "nulls_removed"),
        ({"celsius": 3}, '{"celsius": 3}', "content_encoded"),
        (["a", "b"], '["a", "b"]', "content_encoded"),
        ([{"type": "web", "text": "a"}], '[{"type": "web", "text": "a"}]', "content_encoded"),
        ([], "[]", "content_encoded"),
        (3.0, "3.0", "content_encoded"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", "content_joined"),
    ],
)
def test_results_that_are_no_text_become_text_and_data_stays_data(content, text, code):
    row = {
        "messages": [user("q"), calls(call("t")), result("c1", content), assistant("a")],
        "tools": [tool("t")],
    }
    found, notes = convert("openai", row)
    assert found["messages"][2]["content"] == text
    assert [each for each, _ in notes] == [code]


def test_parts_that_are_no_objects_are_refused():
    note = refusal("openai", {"messages": [user(["a", "b"]), assistant("c")]})
    assert (note.code, note.location) == ("column_type", "$.messages[0].content[0]")


@pytest.mark.parametrize(
    ("messages", "code", "location"),
    [
        ([user(None), assistant("x")], "content_not_string", "$.messages[0].content"),
        ([user("q"), assistant(None)], "assistant_empty", "$.messages[1]"),
        ([user("q"), {"role": "assistant"}], "assistant_empty", "$.messages[1]"),
        ([user("q"), {"role": ["x"], "content": "a"}], "role_unknown", "$.messages[1].role"),
        ([user("q"), 3], "message_not_object", "$.messages[1]"),
        ([user("q"), assistant("x", weight=0)], "nothing_to_train", "$.messages"),
        ([user("q")], "nothing_to_train", "$.messages"),
        ([], "messages_empty", "$.messages"),
        ("text", "column_type", "$.messages"),
        (
            [user("q"), calls(call("t"), call("u"), function_call={"name": "t"})],
            "columns_clash",
            "$.messages[1]",
        ),
        ([user("q"), calls()], "assistant_empty", "$.messages[1]"),
        ([user("q"), assistant("x", tool_calls="no")], "column_type", "$.messages[1].tool_calls"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(messages, code, location):
    outcome = outcome_of("openai", {"messages": messages, "extra": 1})
    assert outcome.data is None
    assert (outcome.notes[0].code, outcome.notes[0].location) == (code, location)


def test_places_are_those_of_the_source_where_messages_were_removed():
    row = {"messages": [{"role": "system", "content": ""}, user("q"), user(""), assistant("a")]}
    note = refusal("openai", row)
    assert (note.code, note.location) == ("content_empty", "$.messages[2].content")
    found, notes = convert("openai", {"messages": [*row["messages"][:2], assistant("a")]})
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]
    assert notes == [("system_removed", "$.messages[0].content")]


def test_rows_for_other_purposes_are_named():
    talk = [user("q"), assistant("a")]
    assert refusal("openai", {"messages": talk, "chosen": talk, "rejected": talk}).code == "preference_pair"
    pair = {"input": {"messages": talk}, "preferred_output": talk, "non_preferred_output": talk}
    note = refusal("openai", pair)
    assert note.code == "preference_pair" and "preferred_output" in note.message
    assert refusal("openai", {"messages": talk, "label": False}).code == "preference_rejected"
    assert convert("openai", {"messages": talk, "label": True})[0]["metadata"] == {"label": True}


def test_a_row_of_another_format_is_named():
    note = refusal("openai", {"conversations": [{"from": "human", "value": "q"}]})
    assert note.code == "other_format" and "--from sharegpt" in note.message
    note = refusal("openai", {"a": 1})
    assert note.code == "unknown_row" and "'a'" in note.message
    assert refusal("openai", [1]).code == "row_not_object"
    assert refusal("openai", {"text": "It was."}).code == "text_only"


def test_columns_and_keys_are_dropped_when_asked_and_only_then():
    row = {"messages": [user("q", name="Ann"), assistant("a")], "text": "long"}
    found, notes = convert("openai", row, drop=frozenset({"text", "messages.name", "absent"}))
    assert found == {"messages": [user("q"), assistant("a")]}
    assert notes == [("column_dropped", "$.messages.name"), ("column_dropped", "$.text")]
    assert refusal("openai", {**row, "text": "x" * 70_000}).code == "metadata_too_large"


def test_a_row_whose_messages_are_dropped_is_not_said_to_have_them():
    outcome = outcome_of(
        "openai", {"messages": [user("q"), assistant("a")], "id": 1}, drop=frozenset({"messages"})
    )
    (note,) = outcome.notes
    assert (note.code, note.location) == ("unknown_row", "$")
    assert note.message == "a row of this format has messages; this one has 'id'"


def test_far_too_many_messages_or_calls_are_refused_before_time_is_spent_on_them():
    ids = [f"c{number}" for number in range(2000)]
    many = [calls(*(call("f", id=each) for each in ids))]
    row = {"messages": [user("q"), *many, *(result(each) for each in ids)], "tools": [tool("f")]}
    note = refusal("openai", row)
    assert (note.code, note.location) == ("too_many_messages", "$.messages")
    assert note.message == "2002 messages; a row has at most 1024, so split the conversation"
    note = refusal("openai", {"messages": [user("q"), *many], "tools": [tool("f")]})
    assert (note.code, note.location) == ("too_many_messages", "$.messages[1].tool_calls")
    silent = [{"role": "system", "content": ""}] * 2000
    found, _ = convert("openai", {"messages": [user("q"), *silent, assistant("a")]})
    assert found["messages"] == [user("q"), assistant("a")]
