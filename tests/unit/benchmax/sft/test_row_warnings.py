"""Warnings: what is allowed and shown nevertheless, counted and with a few examples."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmax.sft import WARNING_CODES, SftDataset, SftIssue, warnings_of

USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}
SYSTEM = {"role": "system", "content": "s"}
PARAMETERS = "$.tools[0].function.parameters"
ARGUMENTS = "$.messages[1].tool_calls[0].function.arguments"
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"enum": ["C", "F", 1]},
        "days": {"type": ["integer", "null"]},
        "at": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "other": {"anyOf": [{"type": "string"}]},
        "sure": {"type": "boolean"},
    },
    "required": ["city"],
}


def row(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def with_parameters(
    parameters: dict[str, Any], arguments: str | None = None, name: str = "t"
) -> dict[str, Any]:
    """Return a row that defines a tool and, when there are arguments, calls it."""
    tools = [{"type": "function", "function": {"name": name, "parameters": parameters}}]
    if arguments is None:
        return row(USER, ANSWER, tools=tools)
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    result = {"role": "tool", "tool_call_id": "c", "content": ""}
    return row(USER, {"role": "assistant", "tool_calls": [call]}, result, ANSWER, tools=tools)


def found(*rows: dict[str, Any]) -> list[tuple[str, str]]:
    warnings = warnings_of(SftDataset.from_rows(rows))
    assert all(warning.count == len(warning.examples) for warning in warnings)
    assert all(issue.code == warning.code for warning in warnings for issue in warning.examples)
    return [(issue.code, issue.location) for warning in warnings for issue in warning.examples]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (row(ANSWER), [("no_user_message", "$.messages")]),
        (row(USER, ANSWER, USER), [("ends_without_assistant", "$.messages[2]")]),
        (with_parameters({}, "{}") | {"messages": with_parameters({}, "{}")["messages"][:3]}, [("ends_without_assistant", "$.messages[2]")]),
        (row(USER, SYSTEM, ANSWER), [("system_not_first", "$.messages[1]")]),
        (row(SYSTEM, SYSTEM, USER, ANSWER), []),
        (row(USER | {"content": " \n\u3000"}, ANSWER), [("content_blank", "$.messages[0].content")]),
        (row(USER, ANSWER | {"content": "\t"}), [("content_blank", "$.messages[1].content")]),
        (with_parameters({}, "{}"), []),
        (with_parameters({}, name="a b/c !"), [("function_name_unusual", "$.tools[0].function.name")]),
        (with_parameters({}, name="a" * 64), []),
        (with_parameters({}, name="a" * 65), [("function_name_unusual", "$.tools[0].function.name")]),
        (with_parameters({"properties": 7}), [("parameters_not_schema", f"{PARAMETERS}.properties")]),
        (with_parameters({"properties": {"x": 7}}), [("parameters_not_schema", f"{PARAMETERS}.properties.x")]),
        (with_parameters({"properties": {"x": True}}), []),
        (with_parameters({"properties": {"x": {"type": "str"}}}), [("parameters_not_schema", f"{PARAMETERS}.properties.x.type")]),
        (with_parameters({"properties": {"x": {"type": "array", "items": {"type": "int"}}}}), [("parameters_not_schema", f"{PARAMETERS}.properties.x.items.type")]),
        (with_parameters({"properties": {"x": {"enum": "C"}}}), [("parameters_not_schema", f"{PARAMETERS}.properties.x.enum")]),
        (with_parameters({"required": "x"}), [("parameters_not_schema", f"{PARAMETERS}.required")]),
        (with_parameters({"properties": {}, "required": ["x"]}), [("parameters_not_schema", f"{PARAMETERS}.required")]),
        (with_parameters({"required": ["x"]}), []),
        (with_parameters(WEATHER), []),
        (row(USER, ANSWER) | {"metadata": {}}, []),
    ],
)  # fmt: skip
def test_a_row_has_exactly_these_warnings(value, expected):
    assert found(value) == expected


@pytest.mark.parametrize(
    ("arguments", "places"),
    [
        (
            {"city": "Oslo", "unit": "C", "days": 2, "at": {"x": 1}, "tags": ["a"], "other": 3, "sure": True},
            [],
        ),
        ({"city": "Oslo", "days": None, "at": {"x": 1.5}, "tags": []}, []),
        ({"city": "Oslo", "days": 2.0, "unit": 1.0}, []),
        ({}, [""]),
        ({"city": 3}, [".city"]),
        ({"city": "Oslo", "zone": 1}, [""]),
        ({"city": "Oslo", "unit": "K"}, [".unit"]),
        ({"city": "Oslo", "unit": True}, [".unit"]),
        ({"city": "Oslo", "days": 2.5}, [".days"]),
        ({"city": "Oslo", "days": True}, [".days"]),
        ({"city": "Oslo", "sure": 1}, [".sure"]),
        ({"city": "Oslo", "at": {}}, [".at"]),
        ({"city": "Oslo", "at": {"x": "1"}}, [".at.x"]),
        ({"city": "Oslo", "tags": ["a", 1, None]}, [".tags[1]", ".tags[2]"]),
        ({"city": None, "tags": "a", "z": 1}, ["", ".city", ".tags"]),
    ],
)
def test_arguments_are_compared_with_the_declared_parameters(arguments, places):
    expected = [("arguments_off_schema", ARGUMENTS + place) for place in places]
    assert found(with_parameters(WEATHER, json.dumps(arguments))) == expected


@pytest.mark.parametrize("allowing", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}])
def test_more_arguments_are_fine_where_the_schema_allows_them(allowing):
    assert found(with_parameters({"properties": {"a": {}}} | allowing, '{"b": 1}')) == []
    assert len(found(with_parameters({"properties": {"a": {}}}, '{"b": 1}'))) == 1
    assert found(with_parameters({}, '{"b": 1}')) == []


def test_equal_rows_are_named_with_the_first_of_them():
    other = row(USER, ANSWER | {"content": "b"})
    dataset = SftDataset.from_rows(
        [row(USER, ANSWER), other, row(USER, ANSWER), row(*map(dict, [USER, ANSWER])), other]
    )
    (warning,) = warnings_of(dataset)
    assert (warning.code, warning.count) == ("duplicate_row", 3)
    assert [(issue.row, issue.message) for issue in warning.examples] == [
        (2, "the same as row 0"),
        (3, "the same as row 0"),
        (4, "the same as row 1"),
    ]


def test_examples_stop_at_twenty_and_the_count_goes_on(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(
        "\n" + "".join(json.dumps(row(ANSWER | {"content": f"a{index}"})) + "\n\n" for index in range(30))
    )
    (warning,) = warnings_of(SftDataset.from_jsonl(path))
    assert (warning.count, len(warning.examples)) == (30, 20)
    text = "the row has no user message, so the model answers nothing"
    assert warning.examples[19] == SftIssue(text, "$.messages", 40, 19, "no_user_message")


def test_warnings_come_in_the_order_of_their_codes():
    rows = [row(USER, ANSWER, USER), row(USER, ANSWER, USER), row(ANSWER)]
    codes = [warning.code for warning in warnings_of(SftDataset.from_rows(rows))]
    assert codes == ["no_user_message", "ends_without_assistant", "duplicate_row"]
    assert [code for code in WARNING_CODES if code in codes] == codes


def test_sound_data_has_no_warnings():
    assert warnings_of(SftDataset.from_rows([row(SYSTEM, USER, ANSWER)])) == ()
