"""`<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen 2.5 and 3, and the fallback block."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from castform_trainer.gateway.parsers.parsed import ParsedCall, ParsedText, ToolFormat, load_json, make_call

BLOCK = re.compile(r"\s*<tool_call>\s*(.*?)\s*</tool_call>\s*", re.DOTALL)


def parse_hermes(text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedText:
    """Take out every complete and valid block; a damaged one stays in the content."""
    calls: list[ParsedCall] = []

    def take(match: re.Match[str]) -> str:
        call = make_call(load_json(match.group(1)))
        if call is None:
            return match.group()
        calls.append(call)
        return "\n" if match.start() > 0 and match.end() < len(text) else ""

    content = BLOCK.sub(take, text)
    return ParsedText(content=content.strip() if calls else text, calls=tuple(calls))


HERMES = ToolFormat(name="hermes", markers=("<tool_call>", "</tool_call>"), parse=parse_hermes)
