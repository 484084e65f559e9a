"""An empty result that a conversion adds behind the last calls of a row changes nothing that is trained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from castform.sft.convert.openai import convert_openai
from castform_trainer.sft.masking import TurnTemplate, mask_row

sys.path.insert(0, str(Path(__file__).parent))
from mask_rows import list_end_ids, make_tokenizer

FUNCTION = {"name": "find", "arguments": '{"city": "Bern"}'}
ROW = {
    "messages": [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": FUNCTION}]},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "find",
                "description": "d",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ],
}


@pytest.mark.parametrize("name", ["chatml", "qwen3", "llama3", "mistral", "hermes", "glm", "harmony"])
def test_the_same_tokens_are_trained_behind_the_same_prompt(name):
    tokenizer = make_tokenizer(name)
    template = TurnTemplate(tokenizer, name=name, end_ids=list_end_ids(name, tokenizer))
    converted = convert_openai(ROW).row()
    assert [message["role"] for message in converted["messages"]] == ["user", "assistant", "tool"]

    def trained(row):
        return [sample.ids[:end] for sample in mask_row(template, row) for _, end in sample.turns]

    assert trained(converted) == trained(ROW) != []
