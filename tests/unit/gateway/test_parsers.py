"""Readers of tool calls and reasoning: what is valid is taken out, what is damaged stays text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform_trainer.gateway.parsers import pick_tool_format, split_reasoning
from castform_trainer.gateway.parsers.hermes import HERMES, parse_hermes
from castform_trainer.gateway.parsers.llama_json import LLAMA_JSON, parse_llama_json
from castform_trainer.gateway.parsers.mistral import MISTRAL, parse_mistral
from castform_trainer.gateway.parsers.qwen_xml import QWEN_XML, parse_qwen_xml

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "parameters": {
                "type": "object",
                "properties": {
                    "word": {"type": "string"},
                    "limit": {"type": "integer"},
                    "exact": {"type": "boolean"},
                    "tags": {"type": "array"},
                },
            },
        },
    }
]
ALL = [HERMES, QWEN_XML, LLAMA_JSON, MISTRAL]


def spelled(parsed):
    return [(call.name, json.loads(call.arguments)) for call in parsed.calls]


def test_hermes_takes_calls_out_and_keeps_the_text_around_them():
    text = 'Let me look.\n<tool_call>\n{"name": "find", "arguments": {"word": "a"}}\n</tool_call>\n<tool_call>{"name":"find","arguments":{}}</tool_call>'
    parsed = parse_hermes(text, TOOLS)
    assert spelled(parsed) == [("find", {"word": "a"}), ("find", {})]
    assert parsed.content == "Let me look."


@pytest.mark.parametrize(
    "damaged",
    [
        '<tool_call>{"name": "find", "arguments": {"word": }}</tool_call>',
        '<tool_call>{"name": "find", "arguments": {"word": NaN}}</tool_call>',
        '<tool_call>{"name": "find", "arguments": {"word": 1e999}}</tool_call>',
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "find", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "find", "arguments": {"word": "a"}}',
        "<tool_call></tool_call>",
    ],
)
def test_a_damaged_hermes_call_stays_in_the_text(damaged):
    parsed = parse_hermes(damaged, TOOLS)
    assert parsed.calls == () and parsed.content == damaged


@pytest.mark.parametrize("nothing", ["{}", "null", '""', '" \\n"', '"{}\\"\\""', '"{}"'])
def test_no_arguments_come_in_several_spellings(nothing):
    call = f'{{"name": "find", "arguments": {nothing}}}'
    assert spelled(parse_hermes(f"<tool_call>{call}</tool_call>", TOOLS)) == [("find", {})]
    assert spelled(parse_mistral(f"[TOOL_CALLS] [{call}]", TOOLS)) == [("find", {})]
    assert spelled(parse_mistral("[TOOL_CALLS]find[ARGS] ", TOOLS)) == [("find", {})]


@pytest.mark.parametrize("damaged", ['{"word": ', "null", "[1]"])
def test_a_damaged_mistral_call_stays_in_the_text(damaged):
    for text in (f"[TOOL_CALLS]find[ARGS]{damaged}", "[TOOL_CALLS]find[ARGS]{}[TOOL_CALLS]find"):
        assert parse_mistral(text, TOOLS).content == text


def test_a_damaged_call_beside_a_good_one_stays_and_the_good_one_counts():
    parsed = parse_hermes('<tool_call>{bad}</tool_call><tool_call>{"name":"find"}</tool_call>', TOOLS)
    assert spelled(parsed) == [("find", {})] and "{bad}" in parsed.content


def test_qwen_xml_reads_values_by_the_schema():
    text = (
        "<tool_call>\n<function=find>\n<parameter=word>\n12\nlines\n</parameter>\n<parameter=limit>\n3\n</parameter>\n"
        '<parameter=exact>\nFalse\n</parameter>\n<parameter=tags>\n["x"]\n</parameter>\n</function>\n</tool_call>'
    )
    parsed = parse_qwen_xml(text, TOOLS)
    assert spelled(parsed) == [("find", {"word": "12\nlines", "limit": 3, "exact": False, "tags": ["x"]})]


def test_qwen_xml_with_stray_text_inside_stays_text():
    text = "<tool_call><function=find>oops<parameter=word>a</parameter></function></tool_call>"
    assert parse_qwen_xml(text, TOOLS).content == text


def test_llama_json_needs_an_offered_name_unless_it_is_tagged():
    assert spelled(parse_llama_json('{"name": "find", "parameters": {"limit": 1}}', TOOLS)) == [
        ("find", {"limit": 1})
    ]
    other = '{"name": "Ann", "parameters": {}}'
    assert parse_llama_json(other, TOOLS).content == other
    assert spelled(
        parse_llama_json('ok<|python_tag|>{"name":"find"}; {"name":"find","parameters":{"limit":2}}', TOOLS)
    ) == [("find", {}), ("find", {"limit": 2})]
    assert parse_llama_json("<|python_tag|>print(1)", TOOLS).calls == ()


def test_mistral_reads_both_of_its_spellings():
    old = 'Sure. [TOOL_CALLS] [{"name": "find", "arguments": {"word": "[a]"}}]'
    assert spelled(parse_mistral(old, TOOLS)) == [("find", {"word": "[a]"})]
    new = '[TOOL_CALLS]find[ARGS]{"limit": 1}[TOOL_CALLS]find[CALL_ID]abc[ARGS]{"limit": 2}'
    assert spelled(parse_mistral(new, TOOLS)) == [("find", {"limit": 1}), ("find", {"limit": 2})]
    broken = '[TOOL_CALLS] [{"name": "find", "arguments": {'
    assert parse_mistral(broken, TOOLS).content == broken


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("… <tool_call>\n<function=example>", "qwen_xml"),
        ("… <tool_call>\n{…}", "hermes"),
        ("[AVAILABLE_TOOLS] [TOOL_CALLS]", "mistral"),
        ("<|python_tag|> ipython", "llama_json"),
        ("plain", "hermes"),
    ],
)
def test_the_template_picks_the_format(template, name):
    assert pick_tool_format(template).name == name


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<think>\nhm\n</think>\n\nyes", False, ("hm", "yes")),
        ("hm\n</think>\n\nyes", True, ("hm", "yes")),
        ("yes", False, ("", "yes")),
        ("<think>cut", False, ("cut", "")),
        ("a <think>b</think>", False, ("", "a <think>b</think>")),
        ("<think></think>yes", False, ("", "yes")),
    ],
)
def test_reasoning_is_split_from_the_answer(text, opened, expected):
    assert split_reasoning(text, opened=opened) == expected


@settings(deadline=None)
@given(text=st.text(alphabet='<>/_{}[]":,; \nabTOLCS|function=parameter'), place=st.integers(0, len(ALL) - 1))
def test_no_text_makes_a_reader_raise_or_lose_text(text, place):
    parsed = ALL[place].parse(text, TOOLS)
    assert parsed.calls or parsed.content == text
