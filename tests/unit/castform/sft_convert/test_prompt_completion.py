"""Prompt and completion, as TRL and OpenAI's older models take them."""

from __future__ import annotations

import json

import pytest
from converting import assistant, call, calls, convert, outcome_of, refusal, result, tool, user


def test_text_becomes_a_question_and_an_answer():
    found, notes = convert("prompt-completion", {"prompt": "The sky is\n", "completion": "blue. ", "id": 1})
    assert found == {"messages": [user("The sky is\n"), assistant("blue. ")], "metadata": {"id": 1}}
    assert notes == [("kept_in_metadata", "$")]


@pytest.mark.parametrize(
    ("completion", "kept"), [(" blue", "blue"), ("  two", "  two"), (" \nx", " \nx"), (" ", " ")]
)
def test_only_the_one_space_of_old_tokenizers_is_removed(completion, kept):
    found, notes = convert("prompt-completion", {"prompt": "p", "completion": completion})
    assert found["messages"][1]["content"] == kept
    assert notes == ([("leading_space_removed", "$.completion")] if kept != completion else [])


def test_answers_of_the_prompt_are_context_only():
    row = {
        "prompt": [user("a"), assistant("b"), assistant("c", weight=0), user("d")],
        "completion": [calls(call("t")), result("c1"), assistant("e")],
        "tools": [tool("t")],
    }
    found, notes = convert("prompt-completion", row)
    assert [message.get("weight") for message in found["messages"]] == [None, 0, 0, None, None, None, None]
    assert found["messages"][4:] == row["completion"]
    assert notes == [("weight_zero", "$.prompt[1]"), ("roles_repeat", "$.prompt[2]")]


def test_messages_as_text_are_decoded_and_text_that_looks_like_it_stays_text():
    row = {"prompt": json.dumps([user("a")]), "completion": json.dumps([assistant("b")])}
    found, notes = convert("prompt-completion", row)
    assert found == {"messages": [user("a"), assistant("b")]}
    assert notes == [("decoded", "$.prompt"), ("decoded", "$.completion")]
    for text in ('[{"a": 1}]', '[{"role": "user"', "[1, 2]", "[]"):
        assert convert("prompt-completion", {"prompt": text, "completion": "b"})[0]["messages"][0] == user(
            text
        )


def test_text_and_messages_may_be_mixed():
    row = {"prompt": [{"role": "system", "content": "s"}, user("a")], "completion": "b"}
    assert convert("prompt-completion", row)[0]["messages"] == [*row["prompt"], assistant("b")]
    row = {"prompt": "a", "completion": {"role": "assistant", "content": "b"}}
    assert convert("prompt-completion", row)[0]["messages"] == [user("a"), assistant("b")]


def test_rows_of_messages_are_read_as_those_of_openai():
    row = {"messages": [{"role": "developer", "content": "s"}, user("a"), assistant("b")]}
    found, notes = convert("prompt-completion", row)
    assert found["messages"][0] == {"role": "system", "content": "s"}
    assert notes == [("role_renamed", "$.messages[0].role")]


@pytest.mark.parametrize(
    ("row", "code", "location"),
    [
        ({"prompt": "a"}, "completion_missing", "$.completion"),
        ({"prompt": "a", "completion": ""}, "completion_missing", "$.completion"),
        ({"prompt": "a", "completion": []}, "completion_missing", "$.completion"),
        ({"prompt": "", "completion": "b"}, "column_type", "$.prompt"),
        ({"prompt": "a", "completion": 3}, "column_type", "$.completion"),
        ({"prompt": "a", "completion": [user("b")]}, "nothing_to_train", "$.messages"),
        ({"prompt": ["a"], "completion": "b"}, "message_not_object", "$.prompt[0]"),
        ({"text": "It was a dark night."}, "text_only", "$.text"),
        ({"prompt": "a", "completion": "b", "label": False}, "preference_rejected", "$.label"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "preference_pair", "$"),
        ({"instruction": "a", "output": "b"}, "other_format", "$"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(row, code, location):
    note = refusal("prompt-completion", row)
    assert (note.code, note.location) == (code, location)


def test_an_answer_that_is_labelled_good_is_kept():
    outcome = outcome_of("prompt-completion", {"prompt": "a", "completion": "b", "label": True})
    assert json.loads(outcome.data or b"")["metadata"] == {"label": True}
