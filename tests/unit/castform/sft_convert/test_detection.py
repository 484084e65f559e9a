"""Which format a file is of, and why."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from converting import assistant, refusal, user

from benchmax.sft.wording import shown
from castform.errors import UsageError
from castform.sft.convert.formats import FORMATS, detect_format

TALK = {"messages": [user("q"), assistant("a")]}
TURNS = {"conversations": [{"from": "human", "value": "q"}]}


@pytest.mark.parametrize(
    ("row", "name", "reason"),
    [
        (TALK, "openai", "`messages` with `role`"),
        ({"messages": '[{"role": "user"}]'}, "openai", "`messages` with a list as text"),
        (TURNS, "sharegpt", "`conversations` with `from`"),
        ({"messages": TURNS["conversations"]}, "sharegpt", "`messages` with `from`"),
        ({"conversations": TALK["messages"]}, "sharegpt", "`conversations` with `role`"),
        ({"items": TURNS["conversations"]}, "sharegpt", "`items` with `from`"),
        ({"instruction": "a", "input": "", "output": "b"}, "alpaca", "`instruction` and `output`"),
        ({"prompt": "a", "completion": "b"}, "prompt-completion", "`prompt` and `completion`"),
    ],
)
def test_a_format_is_told_by_its_columns(row, name, reason):
    found = detect_format([3, row, {"other": 1}])
    assert (found.name, found.reason) == (name, f"1 of the first 2 rows have {reason}")
    assert list(FORMATS) == ["openai", "sharegpt", "alpaca", "prompt-completion"]


def test_rows_of_several_formats_are_counted_and_not_guessed():
    with pytest.raises(UsageError, match="2 of openai, 1 of sharegpt") as caught:
        detect_format([TALK, TURNS, TALK])
    assert "--from" in caught.value.hint


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "preference training"),
        ({"text": "It was."}, "plain text"),
        ({"question": "a", "answer": "b"}, "'answer', 'question'"),
        ({}, "no columns"),
    ],
)
def test_rows_of_no_format_are_named_by_what_they_are(row, words):
    with pytest.raises(UsageError, match=words) as caught:
        detect_format([row])
    assert all(name in caught.value.hint for name in FORMATS)


def test_a_file_without_an_object_has_no_format():
    with pytest.raises(UsageError, match="no row is a JSON object"):
        detect_format([1, [2], None])


@pytest.mark.parametrize("key", ["data", 'it\'s "rows"'])
def test_an_object_around_the_rows_is_named_with_the_way_to_take_them_out(key):
    row = {"version": [1], key: [{"instruction": "a", "output": "b"}] * 3}
    words = f"{shown(key)} is a list of 3 rows of the format alpaca; take them out: jq -c "
    words += shlex.quote(f".[{json.dumps(key)}][]")
    with pytest.raises(UsageError, match=re.escape(words)):
        detect_format([row])
    note = refusal("openai", row)
    assert note.code == "unknown_row" and words in note.message
