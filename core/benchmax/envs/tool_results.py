"""Put what a tool returned into the form that a chat message can carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PART_TYPES = frozenset({"text", "image_url"})


def tool_content(result: object) -> str | list[Any]:
    """Return the content of a tool message.

    Text stays as it is, None is empty, a non-empty list of text or image parts stays a
    list, structures and numbers become compact JSON with readable non-ASCII, and
    anything else its `str`.
    """
    if result is None:
        return ""
    if isinstance(result, str):
        return str(result)
    if isinstance(result, (list, tuple)) and result and all(_is_part(item) for item in result):
        return list(result)
    if isinstance(result, (Mapping, list, tuple, int, float)):
        return _json_text(result)
    return str(result)


def _is_part(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("type") in PART_TYPES


def _json_text(value: object) -> str:
    plain = dict(value) if isinstance(value, Mapping) else value
    try:
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):  # keys that JSON has no form for, or a cycle
        return str(value)
