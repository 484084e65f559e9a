"""A whole reply of `{"name": …, "parameters": {…}}`, after `<|python_tag|>` or bare: Llama 3.1 to 3.3.

Several calls are separated by `;`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from castform_trainer.gateway.parsers.parsed import ParsedCall, ParsedText, ToolFormat, make_call

PYTHON_TAG = "<|python_tag|>"


def parse_llama_json(text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedText:
    """Read the reply as calls when all of it is calls of offered tools; else it is content."""
    before, tag, after = text.partition(PYTHON_TAG)
    rest = (after if tag else text).strip()
    names = {tool["function"]["name"] for tool in tools}
    calls: list[ParsedCall] = []
    decoder = json.JSONDecoder()
    while rest:
        try:
            value, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return ParsedText(content=text)
        call = make_call(value)
        if call is None or (not tag and call.name not in names):
            return ParsedText(content=text)
        calls.append(call)
        rest = rest[end:].lstrip().removeprefix(";").lstrip()
    if not calls:
        return ParsedText(content=text)
    return ParsedText(content=before if tag else "", calls=tuple(calls))


LLAMA_JSON = ToolFormat(name="llama_json", markers=(PYTHON_TAG,), parse=parse_llama_json)
