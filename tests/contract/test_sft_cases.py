"""Cases from the field on finetuning data, A1 to A10, bound to the strict reader and to the converter.

Where a case is lenient and the format is not, the reader refuses and the converter does it and says so.
The masks of A6, A9 and A10 are bound in tests/unit/sft/test_mask_cases.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmax.sft import SftDataset, SftDatasetError, SftIssue, warnings_of
from castform.sft.convert.files import Conversion, convert_file

Row = dict[str, Any]


# --- adapters ------------------------------------------------------------------------------


def talk(*messages: Row, tools: tuple[str, ...] = ()) -> Row:
    functions = [
        {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}
        for name in tools
    ]
    more = {"tools": [{"type": "function", "function": each} for each in functions]} if tools else {}
    return {"messages": list(messages), **more}


def asks(text: Any, **more: Any) -> Row:
    return {"role": "user", "content": text, **more}


def says(text: str, **more: Any) -> Row:
    return {"role": "assistant", "content": text, **more}


def calls(*ids: str, arguments: str = "{}", **more: Any) -> Row:
    function = {"name": "dim_lamp", "arguments": arguments}
    made = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "tool_calls": made, **more}


def gives(call_id: str, text: str = "ok") -> Row:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def issues_of(read: Callable[[], SftDataset]) -> tuple[SftIssue, ...]:
    with pytest.raises(SftDatasetError) as caught:
        read()
    return tuple(caught.value.issues)


def issues_of_row(row: Row) -> tuple[SftIssue, ...]:
    return issues_of(lambda: SftDataset.from_rows([row]))


def converted(folder: Path, *rows: Row) -> tuple[Conversion, list[Row]]:
    source, output = folder / "source.jsonl", folder / "output.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = convert_file(source, output=output)
    return done, list(SftDataset.from_jsonl(output))


# --- A. Data for finetuning ------------------------------------------------------------------


def test_a1_a_call_without_a_result_is_named_with_row_message_and_id(tmp_path: Path) -> None:
    sound = talk(asks("Is it dark?"), says("It is."))
    unanswered = talk(asks("Dim it"), calls("k41"), says("Done."), tools=("dim_lamp",))
    (issue,) = issues_of(lambda: SftDataset.from_rows([sound, unanswered]))
    assert (issue.row, issue.code, issue.location) == (1, "result_missing", "$.messages[1].tool_calls")
    assert "k41" in issue.message
    at_the_end = talk(asks("Dim it"), says("I will."), calls("k9"), tools=("dim_lamp",))
    assert [each.code for each in issues_of_row(at_the_end)] == ["result_missing"]
    done, rows = converted(tmp_path, sound, unanswered, at_the_end)
    assert (done.tally.written, done.tally.refused) == (2, 1)
    assert done.tally.refusals["result_missing"].examples[0]["line"] == 2
    assert rows[0] == sound
    assert rows[1]["messages"] == [*at_the_end["messages"], gives("k9", "")]
    answered_late = talk(asks("Dim it"), says("I will."), calls("k9"), gives("k9"), tools=("dim_lamp",))
    assert list(SftDataset.from_rows([answered_late])) == [answered_late]


@pytest.mark.parametrize(
    "arguments",
    [
        "{'room': 'attic'}",
        '{"room": "attic"',
        '"{\\"room\\": \\"attic\\"}"',
        '["attic"]',
        '{"room": NaN}',
        "null",
    ],
)
def test_a2_damaged_arguments_are_named_with_function_and_call(arguments: str) -> None:
    row = talk(asks("?"), calls("call_5", arguments=arguments), gives("call_5"), tools=("dim_lamp",))
    (issue,) = issues_of_row(row)
    assert "dim_lamp" in issue.message and "call_5" in issue.message
    assert issue.location == "$.messages[1].tool_calls[0].function.arguments"


def test_a2_sound_arguments_stay_to_the_character() -> None:
    spelled = '{ "room":"attic","level" : 1.50 }'
    row = talk(asks("?"), calls("call_5", arguments=spelled), gives("call_5"), tools=("dim_lamp",))
    assert SftDataset.from_rows([row])[0] == row


def test_a4_rows_of_an_odd_number_of_turns_are_kept_and_counted(tmp_path: Path) -> None:
    rows = [
        talk(asks("1"), says("one")),
        talk(asks("2"), says("two"), asks("three?")),
        talk(asks("4"), says("four")),
    ]
    dataset = SftDataset.from_rows(rows)
    assert list(dataset) == rows
    (warning,) = warnings_of(dataset)
    assert (warning.code, warning.count, warning.examples[0].row) == ("ends_without_assistant", 1, 1)
    spoilt = talk(asks("5"))
    (issue,) = issues_of(lambda: SftDataset.from_rows([*rows, spoilt]))
    assert issue.row == 3 and "assistant" in issue.message
    done, kept = converted(tmp_path, *rows, spoilt)
    assert (done.tally.rows, done.tally.written, done.tally.refused) == (4, 3, 1)
    assert kept == rows


@pytest.mark.parametrize("weight", [True, False, "1", -1, 2, 0.5, 1.0, float("nan"), None])
def test_a6_a_weight_is_the_integer_0_or_1(weight: object) -> None:
    row = talk(asks("q"), says("x", weight=weight), says("y"))
    issues = issues_of_row(row)
    assert {issue.location for issue in issues} == {"$.messages[1].weight"}
    assert "weight_invalid" in {issue.code for issue in issues}


def test_a6_a_weight_belongs_to_the_assistant_and_something_is_trained() -> None:
    for wrong, code in (
        (talk(asks("q", weight=1), says("x")), "unknown_key"),
        (talk(asks("q"), says("x", weight=0)), "nothing_to_train"),
    ):
        assert [issue.code for issue in issues_of_row(wrong)] == [code]
    sound = talk(asks("q"), says("bad", weight=0), asks("r"), says("good", weight=1))
    assert SftDataset.from_rows([sound])[0] == sound


def test_a7_lines_end_at_newlines_only_and_a_byte_order_mark_is_for_the_converter(tmp_path: Path) -> None:
    rows = [talk(asks("a\u2028b"), says("ok")), talk(asks("c\u0085d"), says("ok"))]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    data = f"{lines[0]}\r\n{lines[1]}\n".encode()
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    assert list(SftDataset.from_jsonl(path)) == rows
    path.write_bytes(data + b'{"messages": [}\n')
    (issue,) = issues_of(lambda: SftDataset.from_jsonl(path))
    assert (issue.line, issue.row, issue.code) == (3, 2, "invalid_json")
    path.write_bytes(b"\xef\xbb\xbf" + data)
    (issue,) = issues_of(lambda: SftDataset.from_jsonl(path))
    assert (issue.line, issue.code) == (1, "bom")
    done = convert_file(path, output=tmp_path / "out.jsonl")
    assert [note.code for note in done.file_notes] == ["bom_removed"]
    assert list(SftDataset.from_jsonl(tmp_path / "out.jsonl")) == rows


def test_a10_content_may_be_missing_beside_calls_only() -> None:
    without = calls("k")
    for message in (without, {**without, "content": None}):
        row = talk(asks("go"), message, gives("k"), says("done"), tools=("dim_lamp",))
        assert SftDataset.from_rows([row])[0] == row
    for wrong in (
        talk(asks("q"), {"role": "assistant", "content": None}, says("x")),
        talk(asks("q"), {"role": "assistant"}, says("x")),
        talk(asks(None), says("x")),
    ):
        (issue,) = issues_of_row(wrong)
        assert "content" in issue.message
