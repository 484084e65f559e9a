"""A trained turn stands behind the very ids that the gateway gives a model for the same conversation."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmax.sft import SftDataset
from castform_trainer.gateway.request import read_chat_request
from castform_trainer.gateway.template import TemplateRenderer, find_controls
from castform_trainer.gateway.tokens import TextCodec
from castform_trainer.sft.masking import MaskError, TurnTemplate, mask_row

sys.path.insert(0, str(Path(__file__).parent))
from mask_rows import FAMILIES, list_end_ids, make_row, make_tokenizer

PARAMETERS = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "what", "enum": ["b", "a"]},
        "city": {"description": "where", "type": "string"},
        "among": {
            "anyOf": [{"items": {"type": "integer", "minimum": 1}, "type": "array"}, {"type": "null"}],
            "default": {"y": 1, "x": 2},
        },
    },
    "required": ["query", "city"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": f"{name} it", "parameters": PARAMETERS},
    }
    for name in ("find", "lookup_2")
]


def shuffle_keys(rng: random.Random, value: Any) -> Any:
    """Return an equal JSON value with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = rng.sample(sorted(value), len(value))
        return {key: shuffle_keys(rng, value[key]) for key in keys}
    return [shuffle_keys(rng, item) for item in value] if isinstance(value, list) else value


class Gateway:
    """What a server makes of a request body: the ids of its prompt."""

    def __init__(self, name: str) -> None:
        tokenizer = make_tokenizer(name)
        self.codec = TextCodec(tokenizer, controls=find_controls(tokenizer, list_end_ids(name, tokenizer)))
        self.renderer = TemplateRenderer(tokenizer, self.codec, name)

    def encode(self, body: dict[str, Any]) -> tuple[int, ...]:
        request = read_chat_request(json.dumps(body).encode(), model="m", training=False)
        return self.codec.encode(self.renderer.render(request.messages, request.tools, {"date_string": "1"}))


def compare_prompts(name: str, template: TurnTemplate, gateway: Gateway, seed: str, rows: int) -> int:
    """Compare the prompts of generated rows; return how many of them offer tools."""
    rng = random.Random(seed)
    count = 0
    for _ in range(rows):
        row = make_row(rng, FAMILIES[name])
        if "tools" in row:
            row["tools"] = TOOLS
        if not any(m["role"] == "assistant" and m.get("weight", 1) for m in row["messages"]):
            continue
        (stored,) = SftDataset.from_rows([shuffle_keys(rng, row)])
        try:
            samples = mask_row(template, stored)
        except MaskError:
            continue  # what a template cannot show has tests of its own
        for sample in samples:
            for place, (start, _) in zip(sample.places, sample.turns, strict=True):
                body = {"messages": row["messages"][:place], "tools": row.get("tools", [])}
                assert sample.ids[:start] == gateway.encode(shuffle_keys(rng, body)), row
                count += "tools" in row
    return count


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_have_the_prompts_that_the_gateway_makes_of_them_in_whatever_order_their_keys_are(name):
    tokenizer = make_tokenizer(name)
    template = TurnTemplate(
        tokenizer, name=name, end_ids=list_end_ids(name, tokenizer), options={"date_string": "1"}
    )
    with_tools = compare_prompts(name, template, Gateway(name), f"serving {name}", 20)
    assert with_tools >= 10 or name == "gemma"  # which takes no system message, where its tools would be
