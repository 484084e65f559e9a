"""`<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`: Qwen3-Coder and 3.5.

Values are plain text; the offered tool's schema says which of them are JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from castform_trainer.gateway.parsers.parsed import ParsedCall, ParsedText, ToolFormat, load_json

BLOCK = re.compile(r"\s*<tool_call>\s*<function=([^>\n]+)>(.*?)</function>\s*</tool_call>\s*", re.DOTALL)
PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
JSON_TYPES = {"integer", "number", "boolean", "object", "array", "null"}
PYTHON_WORDS = {"True": True, "False": False, "None": None}


def parse_qwen_xml(text: str, tools: Sequence[Mapping[str, Any]]) -> ParsedText:
    """Take out every complete block; a damaged one stays in the content."""
    calls: list[ParsedCall] = []
    schemas = {t["function"]["name"]: t["function"].get("parameters") or {} for t in tools}

    def take(match: re.Match[str]) -> str:
        name, body = match.group(1).strip(), match.group(2)
        if PARAMETER.sub("", body).strip():
            return match.group()
        properties = schemas.get(name, {}).get("properties") or {}
        arguments = {k.strip(): _read_value(v, properties.get(k.strip())) for k, v in PARAMETER.findall(body)}
        calls.append(ParsedCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False)))
        return "\n" if match.start() > 0 and match.end() < len(text) else ""

    content = BLOCK.sub(take, text)
    return ParsedText(content=content.strip() if calls else text, calls=tuple(calls))


def _read_value(text: str, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = set(kind) if isinstance(kind, list) else {kind}
    if "string" in kinds or not kinds & JSON_TYPES:
        return text
    word = text.strip()
    if word in PYTHON_WORDS:
        return PYTHON_WORDS[word]
    value = load_json(word)
    return text if value is None and word != "null" else value


QWEN_XML = ToolFormat(name="qwen_xml", markers=("<tool_call>", "</tool_call>"), parse=parse_qwen_xml)
