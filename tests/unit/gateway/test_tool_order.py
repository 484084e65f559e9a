"""The keys of tools come in one order, whoever wrote them."""

from __future__ import annotations

import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from castform_trainer.gateway.fake_tokenizer import PLAIN, TOOLS, make_fake_tokenizer
from castform_trainer.gateway.template import TemplateRenderer
from castform_trainer.gateway.tokens import TextCodec
from castform_trainer.gateway.tool_order import order_tools

USUAL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Find it.",
        "parameters": {
            "type": "object",
            "properties": {
                "zip": {"type": "string", "description": "where", "enum": ["b", "a"]},
                "city": {"type": "string", "default": {"a": 1, "b": 2}},
                "days": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
            },
            "required": ["zip", "missing", 7, "zip"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def shuffled(value: Any, draw: random.Random) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key], draw) for key in draw.sample(list(value), len(value))}
    return [shuffled(item, draw) for item in value] if isinstance(value, list) else value


def test_a_tool_as_it_is_usually_written_stays_so_and_required_names_come_first():
    assert json.dumps(order_tools([USUAL])) == json.dumps([USUAL])


def test_whatever_order_the_keys_had_they_come_in_the_same_one():
    for seed in range(20):
        assert json.dumps(order_tools([shuffled(USUAL, random.Random(seed))])) == json.dumps([USUAL])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["properties", "items", "required", "type", "x", "y"]), inner)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60)
@given(JSON, st.randoms(use_true_random=False))
def test_any_schema_keeps_its_value_and_has_one_order(schema, draw):
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    (found,) = order_tools([tool])
    assert found == tool
    assert json.dumps(order_tools([shuffled(tool, draw)])) == json.dumps([found])


def test_a_parameter_may_be_called_as_a_keyword_is():
    properties = {"type": {"type": "string"}, "items": {"type": "integer", "title": "n"}}
    schema = {"type": "object", "properties": dict(reversed(properties.items())), "required": ["type"]}
    (found,) = order_tools([{"type": "function", "function": {"name": "f", "parameters": schema}}])
    assert list(found["function"]["parameters"]["properties"].items()) == list(properties.items())


def test_the_gateway_renders_tools_of_any_key_order_alike():
    for template in (TOOLS, PLAIN):
        tokenizer = make_fake_tokenizer(template)
        renderer = TemplateRenderer(tokenizer, TextCodec(tokenizer), "fake")
        messages = [{"role": "user", "content": "go"}]
        texts = {renderer.render(messages, [shuffled(USUAL, random.Random(seed))]) for seed in range(5)}
        assert len(texts) == 1
        assert '"function": {"name": "find", "description": "Find it."' in texts.pop()
