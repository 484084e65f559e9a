"""`[TOOL_CALLS] [{"name": …, "arguments": {…}}, …]`, and the newer `[TOOL_CALLS]name[ARGS]{…}`: Mistral."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from castform_trainer.gateway.parsers.parsed import ParsedCall, ParsedText, ToolFormat, load_json, make_call

MARKER, ARGS = "[TOOL_CALLS]", "[ARGS]"
CALL_ID = re.compile(r"\[CALL_ID\][^\[]*")


def parse_mistral(text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedText:
    """Read what follows the marker; when any of it is damaged the whole reply is content."""
    before, marker, after = text.partition(MARKER)
    if not marker:
        return ParsedText(content=text)
    if ARGS in after:
        pieces = [CALL_ID.sub("", piece).partition(ARGS) for piece in after.split(MARKER)]
        values: Any = [
            {"name": name.strip(), "arguments": arguments} if marker else None
            for name, marker, arguments in pieces
        ]
    else:
        values = load_json(after)
    calls: list[ParsedCall] = []
    for value in values if isinstance(values, list) else [values]:
        call = make_call(value)
        if call is None:
            return ParsedText(content=text)
        calls.append(call)
    return ParsedText(content=before if calls else text, calls=tuple(calls))


MISTRAL = ToolFormat(name="mistral", markers=(MARKER, ARGS, "[CALL_ID]"), parse=parse_mistral)
