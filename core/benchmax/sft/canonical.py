"""The one way in which a row is written: the bytes that are stored, uploaded and hashed."""

from __future__ import annotations

import json
from json.encoder import encode_basestring
from typing import Any

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def canonical_text(value: object) -> str:
    """Return a value as JSON with sorted keys and no spaces; nothing is escaped that need not be.

    Only for values without a fault of the tree (benchmax.sft.tree): others raise what json raises.
    """
    return _ENCODER.encode(value)


def canonical_bytes(value: object) -> bytes:
    """Return the canonical text in UTF-8. UnicodeEncodeError: half of a surrogate pair."""
    return canonical_text(value).encode()


def row_text(row: dict[str, Any], tools_text: str) -> str:
    """Return the canonical text of a sound row whose tools, if it has any, have this canonical text.

    The same as `canonical_text(row)` in less than half the time, since what a message holds is known.
    """
    messages = ",".join(
        [
            f'{{"content":{encode_basestring(message["content"])},"role":"{message["role"]}"}}'
            if len(message) == 2 and "tool_calls" not in message
            else _message_text(message)
            for message in row["messages"]
        ]
    )
    metadata = f',"metadata":{canonical_text(row["metadata"])}' if "metadata" in row else ""
    tools = f',"tools":{tools_text}' if "tools" in row else ""
    return f'{{"messages":[{messages}]{metadata}{tools}}}'


def _message_text(message: dict[str, Any]) -> str:
    role, content = message["role"], message.get("content")
    start = "{"
    if content is not None:
        start = f'{{"content":{encode_basestring(content)},'
    elif "content" in message:
        start = '{"content":null,'
    if role == "tool":
        return f'{start}"role":"tool","tool_call_id":{encode_basestring(message["tool_call_id"])}}}'
    calls = (
        f',"tool_calls":[{",".join(map(_call_text, message["tool_calls"]))}]'
        if "tool_calls" in message
        else ""
    )
    weight = f',"weight":{message["weight"]}' if "weight" in message else ""
    return f'{start}"role":"assistant"{calls}{weight}}}'


def _call_text(call: dict[str, Any]) -> str:
    function, name = call["function"], encode_basestring(call["id"])
    arguments = encode_basestring(function["arguments"])
    called = f'{{"arguments":{arguments},"name":{encode_basestring(function["name"])}}}'
    return f'{{"function":{called},"id":{name},"type":"function"}}'
