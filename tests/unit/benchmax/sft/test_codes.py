"""Every code that a row can have: the exact issues, in order, of a row with that one thing wrong."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from benchmax.sft import CODES, SftDataset, SftDatasetError
from benchmax.sft.windows import CallWindow

USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}
ARGUMENTS = "$.messages[1].tool_calls[0].function.arguments"
CALL = "$.messages[1].tool_calls[0]"


class Text(str):
    pass


def row(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), **more}


def tool(name: Any = "t", **more: Any) -> dict[str, Any]:
    function = {"name": name, "parameters": {"type": "object"}, **more}
    return {"type": "function", "function": function}


def call(name: Any = "c", function: Any = "t", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}, **more}


def calls(*made: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": list(made), **more}


def result(name: Any = "c", content: Any = "r", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": content, **more}


def called(*made: Any, results: tuple[Any, ...] = ("c",), tools: Any = (tool(),)) -> dict[str, Any]:
    """Return a row whose second message makes the calls, each with its result."""
    return row(USER, calls(*made), *map(result, results), ANSWER, tools=list(tools))


def without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: item for name, item in value.items() if name != key}


def tools(*defined: Any) -> dict[str, Any]:
    return row(USER, ANSWER, tools=list(defined))


NESTED: Any = []
for _ in range(70):
    NESTED = [NESTED, NESTED]

ROWS: list[tuple[str, Any, list[tuple[str, str]]]] = [
    # the tree
    ("a key that is a number", row(USER, ANSWER, metadata={1: 2}), [("key_not_string", "$.metadata")]),
    (
        "a key of the row that is none",
        {None: 1, **row(USER, ANSWER)},
        [("key_not_string", "$"), ("unknown_key", "$")],
    ),
    (
        "half a pair as a key",
        row(USER, ANSWER, metadata={"\ud800": 1}),
        [("lone_surrogate", "$.metadata['\\ud800']")],
    ),
    (
        "half a pair in content",
        row(USER, {"role": "assistant", "content": "\udfff"}),
        [("lone_surrogate", "$.messages[1].content")],
    ),
    ("nan", row(USER, ANSWER, metadata={"x": [float("nan")]}), [("not_finite", "$.metadata.x[0]")]),
    ("infinity", row(USER, ANSWER, metadata={"x": float("-inf")}), [("not_finite", "$.metadata.x")]),
    ("4301 digits", row(USER, ANSWER, metadata={"x": -(10**4300)}), [("not_finite", "$.metadata.x")]),
    ("a tuple", row(USER, ANSWER, metadata={"x": ()}), [("not_json_type", "$.metadata.x")]),
    (
        "a subclass of str",
        row({"role": "user", "content": Text("q")}, ANSWER),
        [("not_json_type", "$.messages[0].content"), ("content_not_string", "$.messages[0].content")],
    ),
    (
        "levels without end",
        row(USER, ANSWER, metadata={"x": NESTED}),
        [("too_deep", "$.metadata.x" + "[0]" * 62), ("row_too_large", "$")],
    ),
    ("null", None, [("row_not_object", "$")]),
    ("a list", [USER, ANSWER], [("row_not_object", "$")]),
    ("bytes", b"{}", [("not_json_type", "$"), ("row_not_object", "$")]),
    # the row
    ("two unknown keys", row(USER, ANSWER, prompt="p", completion="c"), [("unknown_key", "$")]),
    # the tools
    ("tools of null", row(USER, ANSWER, tools=None), [("tools_not_list", "$.tools")]),
    ("a tool of text", tools("t"), [("tool_not_object", "$.tools[0]")]),
    ("a tool with strict", tools(tool() | {"strict": True}), [("unknown_key", "$.tools[0]")]),
    ("a retrieval tool", tools(tool() | {"type": "retrieval"}), [("tool_type", "$.tools[0].type")]),
    ("a tool without a type", tools(without(tool(), "type")), [("tool_type", "$.tools[0].type")]),
    (
        "a tool without a function",
        tools({"type": "function"}),
        [("tool_function_missing", "$.tools[0].function")],
    ),
    (
        "a function of text",
        tools({"type": "function", "function": "t"}),
        [("tool_function_not_object", "$.tools[0].function")],
    ),
    ("a strict function", tools(tool(strict=True)), [("unknown_key", "$.tools[0].function")]),
    ("an empty name", tools(tool("")), [("tool_name_empty", "$.tools[0].function.name")]),
    ("a name of a number", tools(tool(3)), [("tool_name_empty", "$.tools[0].function.name")]),
    ("the same name", tools(tool(), tool()), [("tool_name_duplicate", "$.tools[1].function.name")]),
    (
        "no parameters",
        tools({"type": "function", "function": {"name": "t"}}),
        [("tool_parameters_missing", "$.tools[0].function.parameters")],
    ),
    (
        "parameters of a list",
        tools(tool(parameters=[])),
        [("tool_parameters_not_object", "$.tools[0].function.parameters")],
    ),
    (
        "parameters of an array",
        tools(tool(parameters={"type": "array"})),
        [("tool_parameters_type", "$.tools[0].function.parameters.type")],
    ),
    (
        "a description of null",
        tools(tool(description=None)),
        [("tool_description_not_string", "$.tools[0].function.description")],
    ),
    # the messages
    ("no messages", {}, [("messages_missing", "$.messages")]),
    ("messages of an object", {"messages": {}}, [("messages_not_list", "$.messages")]),
    ("no message", row(), [("messages_empty", "$.messages")]),
    ("a message of text", row("q", ANSWER), [("message_not_object", "$.messages[0]")]),
    ("no role", row({"content": "q"}, ANSWER), [("role_missing", "$.messages[0].role")]),
    (
        "the developer's role",
        row({"role": "developer", "content": "q"}, ANSWER),
        [("role_unknown", "$.messages[0].role")],
    ),
    ("a user's name", row(USER | {"name": "x"}, ANSWER), [("unknown_key", "$.messages[0]")]),
    ("a user's weight", row(USER | {"weight": 0}, ANSWER), [("unknown_key", "$.messages[0]")]),
    ("no content", row({"role": "user"}, ANSWER), [("content_not_string", "$.messages[0].content")]),
    (
        "content of null",
        row(USER | {"content": None}, ANSWER),
        [("content_not_string", "$.messages[0].content")],
    ),
    (
        "empty content",
        row({"role": "system", "content": ""}, USER, ANSWER),
        [("content_empty", "$.messages[0].content")],
    ),
    (
        "an assistant's reasoning",
        row(USER, ANSWER | {"reasoning_content": "hm"}),
        [("unknown_key", "$.messages[1]")],
    ),
    (
        "an assistant's parts",
        row(USER, ANSWER | {"content": [{"type": "text", "text": "a"}]}),
        [("content_not_string_or_null", "$.messages[1].content")],
    ),
    (
        "a weight of true beside a sound turn",
        row(USER, ANSWER | {"weight": True}, USER, ANSWER),
        [("weight_invalid", "$.messages[1].weight")],
    ),
    *(
        (
            f"a weight of {weight!r}",
            row(USER, ANSWER | {"weight": weight}),
            [("weight_invalid", "$.messages[1].weight"), ("nothing_to_train", "$.messages")],
        )
        for weight in (True, False, 1.0, 0.5, "1", None, -1, 2, [1])
    ),
    (
        "no call in the list",
        row(USER, ANSWER | {"tool_calls": []}),
        [("tool_calls_empty", "$.messages[1].tool_calls")],
    ),
    (
        "calls of null",
        row(USER, ANSWER | {"tool_calls": None}),
        [("tool_calls_empty", "$.messages[1].tool_calls")],
    ),
    ("a call of text", called("t", results=()), [("call_not_object", CALL)]),
    ("a call with an index", called(call(index=0)), [("unknown_key", CALL)]),
    ("a custom call", called(call(type="custom")), [("call_type", f"{CALL}.type")]),
    ("no id", called(without(call(), "id"), results=()), [("call_id_empty", f"{CALL}.id")]),
    ("an empty id", called(call(""), results=()), [("call_id_empty", f"{CALL}.id")]),
    (
        "the same id twice in one message",
        called(call(), call(), results=("c", "c")),
        [("call_id_duplicate", "$.messages[1].tool_calls[1].id")],
    ),
    (
        "the same id twice in two messages",
        row(USER, calls(call()), result(), calls(call()), result(), ANSWER, tools=[tool()]),
        [("call_id_duplicate", "$.messages[3].tool_calls[0].id")],
    ),
    (
        "a call without a function",
        called(without(call(), "function")),
        [("call_function_missing", f"{CALL}.function")],
    ),
    (
        "a call's function of text",
        called(call() | {"function": "t"}),
        [("call_function_not_object", f"{CALL}.function")],
    ),
    (
        "a call's function with more",
        called(call() | {"function": {"name": "t", "arguments": "{}", "x": 1}}),
        [("unknown_key", f"{CALL}.function")],
    ),
    ("a call without a name", called(call(function=None)), [("call_name_empty", f"{CALL}.function.name")]),
    (
        "a call of what is not defined",
        called(call(function="u")),
        [("call_undefined_function", f"{CALL}.function.name")],
    ),
    ("arguments of an object", called(call(arguments={})), [("arguments_not_string", ARGUMENTS)]),
    ("arguments of nothing", called(call(arguments="")), [("arguments_invalid_json", ARGUMENTS)]),
    ("arguments cut off", called(call(arguments='{"x": "y')), [("arguments_invalid_json", ARGUMENTS)]),
    (
        "arguments with NaN",
        called(call(arguments='{"x": NaN}')),
        [("arguments_invalid_json", ARGUMENTS)],
    ),
    (
        "arguments with a key twice",
        called(call(arguments='{"x": 1, "x": 2}')),
        [("arguments_invalid_json", ARGUMENTS)],
    ),
    (
        "arguments encoded twice",
        called(call(arguments='"{\\"x\\": 1}"')),
        [("arguments_not_object", ARGUMENTS)],
    ),
    (
        "infinite arguments",
        called(call(arguments='{"x": [1e999]}')),
        [("not_finite", f"{ARGUMENTS}.x[0]")],
    ),
    (
        "arguments of 5000 digits",
        called(call(arguments='{"x": ' + "9" * 5000 + "}")),
        [("not_finite", f"{ARGUMENTS}.x")],
    ),
    (
        "half a pair in arguments",
        called(call(arguments='{"x": "\\ud800"}')),
        [("lone_surrogate", f"{ARGUMENTS}.x")],
    ),
    (
        "65 levels of arguments",
        called(call(arguments='{"x": ' + "[" * 64 + "]" * 64 + "}")),
        [("too_deep", f"{ARGUMENTS}.x" + "[0]" * 63)],
    ),
    (
        "endless levels of arguments",
        called(call(arguments="[" * 200_000)),
        [("too_deep", ARGUMENTS)],
    ),
    (
        "an assistant without anything",
        row(USER, ANSWER, USER, {"role": "assistant", "content": ""}),
        [("assistant_empty", "$.messages[3]")],
    ),
    (
        "an assistant of null alone",
        row(USER, {"role": "assistant", "content": None}),
        [("assistant_empty", "$.messages[1]"), ("nothing_to_train", "$.messages")],
    ),
    # results
    (
        "a result with a name",
        row(USER, calls(call()), result(name="c") | {"name": "t"}, ANSWER, tools=[tool()]),
        [("unknown_key", "$.messages[2]")],
    ),
    (
        "a result without text",
        row(USER, calls(call()), result(content=None), ANSWER, tools=[tool()]),
        [("content_not_string", "$.messages[2].content")],
    ),
    (
        "a result without an id",
        row(USER, calls(call()), result(""), result(), ANSWER, tools=[tool()]),
        [("tool_call_id_empty", "$.messages[2].tool_call_id")],
    ),
    (
        "a result too early",
        called(call("a"), call("b"), call("c"), results=("c", "a", "b")),
        [("result_out_of_order", "$.messages[2].tool_call_id")],
    ),
    (
        "two results too early",
        called(call("a"), call("b"), call("c"), results=("b", "c", "a")),
        [
            ("result_out_of_order", "$.messages[2].tool_call_id"),
            ("result_out_of_order", "$.messages[3].tool_call_id"),
        ],
    ),
    (
        "a second result",
        called(call(), results=("c", "c")),
        [("result_duplicate", "$.messages[3].tool_call_id")],
    ),
    (
        "a second result after the window",
        row(USER, calls(call()), result(), ANSWER, result(), ANSWER, tools=[tool()]),
        [("result_duplicate", "$.messages[4].tool_call_id")],
    ),
    (
        "two late results",
        row(USER, calls(call()), ANSWER, result(), result(), ANSWER, tools=[tool()]),
        [
            ("result_missing", "$.messages[1].tool_calls"),
            ("result_late", "$.messages[3].tool_call_id"),
            ("result_duplicate", "$.messages[4].tool_call_id"),
        ],
    ),
    (
        "a result before its call",
        row(USER, result(), calls(call()), result(), ANSWER, tools=[tool()]),
        [("result_unknown_id", "$.messages[1].tool_call_id")],
    ),
    (
        "no results at the end of the row",
        row(USER, calls(call("a"), call("b")), result("a"), tools=[tool()]),
        [("result_missing", "$.messages[1].tool_calls")],
    ),
    (
        "a message of another kind before the result",
        row(USER, calls(call()), 5, result(), ANSWER, tools=[tool()]),
        [
            ("result_missing", "$.messages[1].tool_calls"),
            ("message_not_object", "$.messages[2]"),
            ("result_late", "$.messages[3].tool_call_id"),
        ],
    ),
    # tools needed, metadata, training
    ("calls and no tools", row(USER, calls(call()), result(), ANSWER), [("tools_required", "$.tools")]),
    ("calls and empty tools", called(call(), tools=()), [("tools_required", "$.tools")]),
    ("metadata of null", row(USER, ANSWER, metadata=None), [("metadata_not_object", "$.metadata")]),
    (
        "reserved names and tools in metadata",
        row(USER, ANSWER, metadata={"tools": [], "_castform_b": 1, "_castform_a": 1}),
        [("metadata_reserved_prefix", "$.metadata"), ("metadata_reserved_tools", "$.metadata")],
    ),
    ("no assistant", row(USER), [("nothing_to_train", "$.messages")]),
    ("no weight left", row(USER, ANSWER | {"weight": 0}), [("nothing_to_train", "$.messages")]),
    (
        "everything at once",
        {
            "messages": [calls(call(function="u"), weight=2), {"role": "user"}],
            "tools": [tool(7)],
            "metadata": {"tools": float("nan")},
            "extra": {3},
        },
        [
            ("not_finite", "$.metadata.tools"),
            ("not_json_type", "$.extra"),
            ("unknown_key", "$"),
            ("tool_name_empty", "$.tools[0].function.name"),
            ("weight_invalid", "$.messages[0].weight"),
            ("result_missing", "$.messages[0].tool_calls"),
            ("content_not_string", "$.messages[1].content"),
            ("metadata_reserved_tools", "$.metadata"),
            ("nothing_to_train", "$.messages"),
        ],
    ),
]

ELSEWHERE = {
    # test_reading.py and the golden files
    *("bom", "not_utf8", "duplicate_key", "nonfinite_literal", "invalid_json", "empty_dataset"),
    *("too_many_tools", "too_many_messages", "metadata_too_large"),
}


@pytest.mark.parametrize(("value", "expected"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS])
def test_a_faulty_row_has_exactly_these_issues(value, expected):
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_rows([row(USER, ANSWER), value])
    assert [(issue.code, issue.location) for issue in caught.value.issues] == expected
    assert {(issue.line, issue.row) for issue in caught.value.issues} == {(None, 1)}
    for issue in caught.value.issues:
        assert issue.message.isprintable(), issue.message
        assert len(issue.message) < 500


def as_line(value: Any) -> bytes:
    """Return a row as a line of a file; ValueError, TypeError, RecursionError: it cannot be one."""
    if any(key.__class__ is not str for key in value or ()) or isinstance(value, (list, bytes)):
        raise TypeError("the keys of a row are strings")
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def test_the_same_row_in_a_file_has_the_same_issues(tmp_path):
    rows = [(value, expected) for _, value, expected in ROWS if value is not NESTED]
    lines, wanted = [], []
    for value, expected in rows:
        codes = {code for code, _ in expected}
        if codes & {"key_not_string", "not_json_type", "not_finite", "row_too_large", "row_not_object"}:
            continue  # no file has such a value, or it decodes to another
        lines += [as_line(called(call(), tools=(tool(), tool("b")))), as_line(value)]
        wanted += [(len(lines), len(lines) - 1, code, location) for code, location in expected]
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(lines))
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_jsonl(path)
    assert [(i.line, i.row, i.code, i.location) for i in caught.value.issues] == wanted
    assert len(lines) > 120


def test_tools_of_null_are_refused_in_the_first_row_and_after_others(tmp_path):
    path = tmp_path / "x.jsonl"
    bad, good = as_line(row(USER, ANSWER, tools=None)), as_line(tools(tool()))
    for lines, faulty in (([bad], 0), ([good, bad], 1), ([good, good, bad, good], 2)):
        path.write_bytes(b"".join(lines))
        with pytest.raises(SftDatasetError) as caught:
            SftDataset.from_jsonl(path)
        assert [(i.row, i.code) for i in caught.value.issues] == [(faulty, "tools_not_list")]


def test_rows_in_turn_may_have_the_same_tools_other_tools_or_none(tmp_path):
    path = tmp_path / "x.jsonl"
    uses_b = called(call(function="b"), tools=(tool(), tool("b")))
    path.write_bytes(
        b"".join(map(as_line, [uses_b, uses_b, called(call(function="b")), uses_b, called(call())]))
    )
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_jsonl(path)
    assert [(i.row, i.code) for i in caught.value.issues] == [(2, "call_undefined_function")]
    path.write_bytes(as_line(uses_b) + as_line(row(USER, calls(call()), result(), ANSWER)))
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_jsonl(path)
    assert [(i.row, i.code) for i in caught.value.issues] == [(1, "tools_required")]


def test_every_code_is_shown_by_a_row_or_by_another_file():
    shown = {code for _, _, expected in ROWS for code, _ in expected}
    assert shown | ELSEWHERE == set(CODES)
    assert not shown & ELSEWHERE


SOUND = [
    ("assistant only", row(ANSWER)),
    ("the user at the end", row(USER, ANSWER, USER)),
    ("space only", row(USER, {"role": "assistant", "content": " \n"})),
    ("a system message in between", row(USER, ANSWER, {"role": "system", "content": "s"}, USER, ANSWER)),
    ("two assistants", row(USER, ANSWER, ANSWER)),
    ("an empty result", row(USER, calls(call()), result(content=""), ANSWER, tools=[tool()])),
    ("a call after text", row(USER, ANSWER, calls(call(), content="now"), result(), tools=[tool()])),
    ("empty content beside a call", called(call()) | {"metadata": {}}),
    ("a call of weight 0", row(USER, calls(call(), weight=0), result(), ANSWER, tools=[tool()])),
    ("a call is all there is to train", row(USER, calls(call()), result(), tools=[tool()])),
    ("results in order", called(call("a"), call("b"), results=("a", "b"))),
    ("a strange name", tools(tool("a b/c !"))),
    ("strange properties", tools(tool(parameters={"properties": 7}))),
    ("arguments off the schema", called(call(arguments='{"zzz": 1}'))),
    ("no tools at all", tools()),
    ("4300 digits", row(USER, ANSWER, metadata={"x": 10**4300 - 1})),
    ("pairs", row({"role": "user", "content": "😀\x00\u2028"}, ANSWER)),
    ("escaped arguments", called(call(arguments='{"x": "\\ud83d\\ude00"}'))),
]


@pytest.mark.parametrize("value", [case[1] for case in SOUND], ids=[case[0] for case in SOUND])
def test_a_sound_row_is_taken_as_it_is(value):
    assert SftDataset.from_rows([value])[0] == value


WORDS = [
    (
        called(call("call_7", "t", "{'city': 'Oslo'}"), results=("call_7",)),
        r"'t' in the call 'call_7'.*quotes",
    ),
    (called(call(arguments='"{\\"a\\": 1}"')), r"decode to '\{\"a\": 1\}'.*encoded twice"),
    (row(USER | {"weight": 1}, ANSWER), r"no key 'weight'.*weight belongs to assistant messages"),
    (
        row(USER, ANSWER, z=1, b=2, é=3),
        r"no key 'b', 'z', 'é'; its keys are messages, tools, metadata",
    ),
    (row(USER, calls(call("c77")), ANSWER, tools=[tool()]), r"tool calls 'c77' have no tool result"),
    (called(call(function="u"), tools=[tool("b"), tool("a")]), r"'u' is not among the row's tools: 'a', 'b'"),
    ([row(USER, ANSWER)], r"`castform sft convert` reads a file that is one array"),
    (row(USER, ANSWER | {"content": []}), r"content of an assistant message is a list"),
    (
        row(USER, ANSWER, metadata={"x": "y" * 1_048_600}),
        r"metadata has 1,048,608 canonical bytes; at most 65,536 are allowed",
    ),
    (
        row({"role": "user", "content": "y" * 1_048_600}, ANSWER),
        r"the row has 1,048,678 canonical bytes; at most 1,048,576",
    ),
]


@pytest.mark.parametrize(("value", "words"), WORDS)
def test_the_message_says_which_value_and_what_to_do(value, words):
    with pytest.raises(SftDatasetError, match=words):
        SftDataset.from_rows([value])


def test_many_parallel_calls_are_linked_in_time_that_grows_with_their_number():
    """Each call against each other would be 8e8 comparisons here, a minute instead of a moment."""
    names = [f"c{number}" for number in range(40_000)]
    window, faults = CallWindow(), []
    window.open("$", names)
    started = time.process_time()
    for name in [*names[:5], names[-1], *names[5:-1]]:
        faults += window.answer(name, "$")
    assert time.process_time() - started < 10
    assert [fault.code for fault in faults] == ["result_out_of_order"]
    assert "'c5'" in faults[0].message and [*window.close()] == []
