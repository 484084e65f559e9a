"""The one way in which a row is written: the bytes that are stored, uploaded and hashed."""

from __future__ import annotations

import json
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

    The same as `canonical_text(row)` in half the time: most messages have content and a role alone.
    """
    encode = _ENCODER.encode
    messages = [
        f'{{"content":{encode(message["content"])},"role":"{message["role"]}"}}'
        if len(message) == 2 and type(message.get("content")) is str
        else encode(message)
        for message in row["messages"]
    ]
    metadata = f',"metadata":{encode(row["metadata"])}' if "metadata" in row else ""
    tools = f',"tools":{tools_text}' if "tools" in row else ""
    return f'{{"messages":[{",".join(messages)}]{metadata}{tools}}}'
