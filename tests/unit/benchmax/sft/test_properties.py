"""Laws: canonical bytes stay as they are, equal data gives equal bytes, and bad data is never a crash."""

from __future__ import annotations

import json
import random
from collections import OrderedDict
from enum import IntEnum
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmax.sft import CODES, SftDataset, SftDatasetError
from benchmax.sft.canonical import canonical_bytes
from benchmax.sft.clean import is_clean
from benchmax.sft.parsing import has_no_key_twice, parse_text
from benchmax.sft.row_warnings import WARNING_CODES, warnings_of
from benchmax.sft.rows import row_faults

CHEAP = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


class Number(IntEnum):
    ONE = 1


text = st.text(max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
WORDS = (
    "messages",
    "tools",
    "metadata",
    "role",
    "content",
    "weight",
    "tool_calls",
    "tool_call_id",
    "id",
    "type",
)
WORDS += (
    "function",
    "name",
    "arguments",
    "parameters",
    "user",
    "assistant",
    "tool",
    "system",
    "_castform_x",
    "",
)
keys = (
    st.sampled_from(WORDS)
    | st.text(alphabet=st.characters(), max_size=4)
    | st.integers()
    | st.none()
    | st.binary(max_size=2)
)
leaves = (
    keys
    | st.floats()
    | st.booleans()
    | st.integers().map(lambda number: 10 ** (number % 5000))
    | st.sampled_from(
        ["\ud800", b"x", object(), {1}, frozenset(), 1j, Number.ONE, OrderedDict(a=1), (1,), json]
    )
    | st.sampled_from(["{}", "{", '{"a": NaN}', "[" * 5000, '{"a":1,"a":1}', "1" * 5000, '{"x":"\\udfff"}'])
)
python_trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4) | st.tuples(inner),
    max_leaves=12,
)


@st.composite
def sound_rows(draw) -> dict[str, Any]:
    """Draw a valid row, with calls or without."""
    names = draw(st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=3))
    messages: list[dict[str, Any]] = []
    for turn in range(draw(st.integers(1, 4))):
        content = st.text(min_size=1, max_size=6)
        messages.append({"role": draw(st.sampled_from(["user", "system"])), "content": draw(content)})
        called = draw(st.lists(st.sampled_from(names), max_size=2)) if names else []
        answer: dict[str, Any] = {
            "role": "assistant",
            "content": draw(content if not called else text | st.none()),
        }
        if draw(st.booleans()):
            answer["weight"] = draw(st.sampled_from([0, 1]))
        if called:
            objects = st.dictionaries(text, json_values, max_size=2)
            answer["tool_calls"] = [
                {
                    "id": f"{turn}.{index}",
                    "type": "function",
                    "function": {
                        "name": name,
                        "arguments": json.dumps(draw(objects), ensure_ascii=draw(st.booleans())),
                    },
                }
                for index, name in enumerate(called)
            ]
        messages.append(answer)
        messages += [
            {"role": "tool", "tool_call_id": f"{turn}.{index}", "content": draw(text)}
            for index in range(len(called))
        ]
    messages[-1 - (messages[-1]["role"] == "tool") * len(called)].pop("weight", None)
    row: dict[str, Any] = {"messages": messages}
    if names or draw(st.booleans()):
        row["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "parameters": draw(st.dictionaries(text, json_values, max_size=2)) | {"type": "object"},
                },
            }
            for name in names
        ]
    if draw(st.booleans()):
        metadata = draw(st.dictionaries(text, json_values, max_size=3))
        metadata.pop("tools", None)
        row["metadata"] = metadata
    return row


def reordered(value: Any, chance: random.Random) -> Any:
    """Return an equal value whose objects name their keys in another order."""
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: reordered(value[name], chance) for name in names}
    return [reordered(item, chance) for item in value] if isinstance(value, list) else value


@CHEAP
@given(rows=st.lists(sound_rows(), min_size=1, max_size=3), seed=st.integers(0, 99), ascii_only=st.booleans())
def test_equal_data_gives_equal_bytes_however_it_is_written(rows, seed, ascii_only, tmp_path_factory):
    canonical = SftDataset.from_rows(rows).to_jsonl_bytes()
    chance = random.Random(seed)
    path = tmp_path_factory.getbasetemp() / "rewritten.jsonl"
    lines = [json.dumps(reordered(row, chance), ensure_ascii=ascii_only, indent=None) for row in rows]
    path.write_bytes("".join(f"{' ' * (seed % 3)}{line}\r\n\n" for line in lines).encode())
    dataset = SftDataset.from_jsonl(path)
    assert dataset.to_jsonl_bytes() == canonical
    path.write_bytes(canonical)
    assert SftDataset.from_jsonl(path).to_jsonl_bytes() == canonical
    assert SftDataset.from_rows(dataset.rows).to_jsonl_bytes() == canonical
    assert dataset.rows == rows
    assert canonical.count(b"\n") == len(rows)


@CHEAP
@given(row=sound_rows())
def test_sound_rows_take_the_short_way_and_the_long_one_agrees(row):
    assert is_clean(row)
    assert row_faults(row) == []


@settings(CHEAP, max_examples=200)
@given(value=python_trees)
def test_no_python_value_is_a_crash(value):
    try:
        dataset = SftDataset.from_rows([value])
    except SftDatasetError as error:
        assert error.issues
        assert {issue.code for issue in error.issues} <= CODES.keys()
        str(error).encode()
    else:
        assert dataset.rows == [value]


@settings(CHEAP, max_examples=200)
@given(row=sound_rows(), value=python_trees, data=st.data())
def test_a_row_with_one_place_changed_is_sound_or_an_error_and_both_ways_agree(row, value, data):
    place: Any = row
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.integers(0, 3)) == 0:
            break
        place = inner
    if data.draw(st.booleans()) or not isinstance(place, dict):
        place[key] = value
    elif data.draw(st.booleans()):
        del place[key]
    else:
        place[data.draw(keys)] = value
    faults = row_faults(row)
    try:
        dataset = SftDataset.from_rows([row])
    except SftDatasetError as error:
        assert [(issue.code, issue.location, issue.message) for issue in error.issues] == faults
    else:
        assert faults == []
        assert dataset.rows == [row]
        assert {warning.code for warning in warnings_of(dataset)} <= WARNING_CODES.keys()


@settings(CHEAP, max_examples=200)
@given(
    data=st.binary(max_size=40)
    | st.lists(
        st.sampled_from(
            [
                b"{",
                b"}",
                b"[",
                b"]",
                b'"',
                b"a",
                b":",
                b",",
                b"1",
                b"\n",
                b"\xc3",
                b"\xa9",
                b"NaN",
                b"\\u",
                b"d800",
            ]
        ),
        max_size=12,
    ).map(b"".join)
)
def test_no_file_is_a_crash(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(data)
    try:
        SftDataset.from_jsonl(path)
    except SftDatasetError as error:
        assert {issue.code for issue in error.issues} <= CODES.keys()
        lines = [issue.line for issue in error.issues if issue.line is not None]
        assert lines == sorted(lines)
        str(error).encode()
    else:
        raise AssertionError("no such file can be a dataset")


@settings(CHEAP, max_examples=200)
@given(data=st.data())
def test_a_key_that_stands_twice_is_found_however_the_object_is_written(data):
    draw = data.draw
    quoted = st.sampled_from(["a", ":", '\\"', '\\":', "\\\\", "\\u003a", "\\u0022", "\\\\u003a", "é", "a:b"])
    pairs = draw(st.lists(st.tuples(quoted, quoted | st.none()), min_size=1, max_size=4))
    space = st.sampled_from(["", " ", "\t"])
    members = [
        f'"{key}"{draw(space)}:{draw(space)}' + ("{}" if value is None else f'"{value}"')
        for key, value in pairs
    ]
    written = "{" + f"{draw(space)},".join(members) + "}"
    value = json.loads(written)
    canonical = canonical_bytes(value)
    if has_no_key_twice(written.encode(), canonical):
        assert len(value) == len(pairs)
        parse_text(written)
    elif len(value) == len(pairs):
        assert "\\u003" in written
