"""Prompts: fields of the row put in, and nothing that a row holds read as a template."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.compose.settings import PromptMessage
from castform.compose.template import parse_prompt, parse_template, show_value


@settings(deadline=None, max_examples=60)
@given(value=st.text())
def test_what_a_row_holds_is_never_read_as_a_template(value):
    template = parse_template("{{a}} {question} and {question}}}")
    assert template.fields == ("question", "question")
    assert template.fill({"question": value}) == f"{{a}} {value} and {value}}}"


@settings(deadline=None, max_examples=60)
@given(literal=st.text())
def test_doubled_braces_come_out_single_and_all_else_as_it_is(literal):
    text = literal.replace("{", "{{").replace("}", "}}")
    assert parse_template(text).fill({}) == literal


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("a {} b", "'{}' at character 3"),
        ('{"a": 1}', "at character 1"),
        ("{ question }", "'{ question }'"),
        ("open {question", "'{' at character 6"),
        ("shut} ", "'}' at character 5"),
        ("{0}", "'{0}'"),
        ("{question!r}", "'{question!r}'"),
        ("{question:>9}", "'{question:>9}'"),
    ],
)
def test_a_brace_that_is_neither_a_field_nor_doubled_is_an_error_with_its_place(text, token):
    with pytest.raises(ValueError, match=r"is not a field of the row; write \{\{ and \}\}") as caught:
        parse_template(text)
    assert token in str(caught.value)


def test_values_that_are_no_text_are_written_as_json():
    assert show_value("{x}") == "{x}"
    assert show_value(3) == "3"
    assert show_value(1.5) == "1.5"
    assert show_value(True) == "true"
    assert show_value({"é": [1, None]}) == '{"é": [1, null]}'


def test_a_prompt_names_each_field_once_and_keeps_its_messages_in_order():
    prompt, faults = parse_prompt(
        [
            PromptMessage(role="system", content="Be {tone}."),
            PromptMessage(role="user", content="{question} {tone} {a.b-c}"),
        ]
    )
    assert faults == []
    assert prompt.fields == ["tone", "question", "a.b-c"]
    assert prompt.fill({"tone": "brief", "question": "Why?", "a.b-c": 1}) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why? brief 1"},
    ]


def test_every_faulty_message_of_a_prompt_is_told_and_so_is_one_without_a_question():
    _, faults = parse_prompt(
        [PromptMessage(role="user", content="{"), PromptMessage(role="assistant", content="}")]
    )
    assert [fault.split(":")[0] for fault in faults] == [
        "the user message",
        "the assistant message",
        "the last message is the assistant's, so there is nothing to answer",
    ]
