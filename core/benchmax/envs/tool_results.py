"""Put what a tool returned into the form that a chat message can carry."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

PART_TYPES = frozenset({"text", "image_url"})
NOTE_CHARS = 120
"""Room for the note on what was cut: a result that is longer than its limit by less stays whole."""


def tool_content(result: object, *, max_chars: int | None = None) -> str | list[Any]:
    """Return the content of a tool message.

    Text stays as it is, None is empty, a non-empty list of text or image parts stays a
    list, structures and numbers become compact JSON with readable non-ASCII, bytes the
    text that they spell or else a note on their number, and anything else its `str`.

    Text beyond `max_chars` is cut off and a note says so; images are left alone. What is
    no valid Unicode is replaced, so that the message can be sent.
    """
    if result is None:
        return ""
    if isinstance(result, str):
        return _limited(str(result), max_chars)
    if isinstance(result, (bytes, bytearray, memoryview)):
        return _bytes_text(result, max_chars)
    if isinstance(result, (list, tuple)) and result and all(_is_part(item) for item in result):
        return _limited_parts(result, max_chars)
    if isinstance(result, (Mapping, list, tuple, int, float)):
        return _json_text(result, max_chars)
    return _limited(str(result), max_chars)


def _is_part(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("type") in PART_TYPES


def _limited(text: str, max_chars: int | None) -> str:
    if max_chars is None or len(text) <= max_chars + NOTE_CHARS:
        return _valid(text)
    return _with_note(text[:max_chars], f"{len(text):,} characters")


def _with_note(kept: str, whole: str) -> str:
    return f"{_valid(kept)}\n[cut: the first {len(kept):,} characters of {whole}]"


def _limited_parts(parts: list[Any] | tuple[Any, ...], max_chars: int | None) -> list[Any]:
    """Return the parts, all their text together within the limit."""
    left = max_chars
    limited: list[Any] = []
    for part in parts:
        text = part.get("text")
        if part["type"] == "text" and isinstance(text, str):
            kept = _limited(text, left)
            limited.append(part if kept == text else {**part, "text": kept})
            left = None if left is None else max(0, left - len(text))
        else:
            limited.append(part)
    return limited


def _bytes_text(data: bytes | bytearray | memoryview, max_chars: int | None) -> str:
    """Return what the bytes spell in UTF-8; a note on their number when they spell no text."""
    view = memoryview(data).cast("B")
    # Four bytes a character at most: what lies behind that is not looked at.
    seen = bytes(view if max_chars is None else view[: 4 * (max_chars + NOTE_CHARS + 1)])
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(seen, final=len(seen) == len(view))
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return f"[{len(view):,} bytes of binary data]"
    if len(seen) < len(view):
        return _with_note(text[:max_chars], f"{len(view):,} bytes")
    return _limited(text, max_chars)


def _json_text(value: object, max_chars: int | None) -> str:
    """Return JSON text within the limit; a long structure is written only as far as it is kept."""
    plain: object = dict(value) if isinstance(value, Mapping) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return _no_number(plain)
    try:
        if max_chars is not None and _size(plain, max_chars + NOTE_CHARS) > max_chars + NOTE_CHARS:
            begun = _dumps(_pruned(plain, [max_chars + NOTE_CHARS]))
            return _with_note(begun[:max_chars], "a longer result")
        return _limited(_dumps(plain), max_chars)
    except (TypeError, ValueError, RecursionError):  # keys that JSON has no form for, or a cycle
        return _limited(str(value), max_chars)


def _dumps(value: object) -> str:
    options: dict[str, Any] = {"ensure_ascii": False, "separators": (",", ":"), "default": _other}
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:  # nan, which JSON has no word for, or a cycle
        return json.dumps(_without_nan(value), **options)


def _size(value: object, limit: int) -> int:
    """Return how many characters the value has as JSON at least, counted only until `limit` is passed."""
    waiting: list[object] = [value]
    size = 0
    while waiting and size <= limit:
        item = waiting.pop()
        size += len(item) if isinstance(item, (str, bytes, bytearray, Mapping, list, tuple)) else 1
        if isinstance(item, Mapping):
            waiting += islice(item.values(), limit)
        elif isinstance(item, (list, tuple)):
            waiting += islice(item, limit)
    return size


def _pruned(value: object, left: list[int]) -> object:
    """Return the value without what lies behind the first `left` characters of its JSON."""
    left[0] -= 1
    if isinstance(value, str):
        kept = value[: max(0, left[0])]
        left[0] -= len(kept)
        return kept
    if isinstance(value, Mapping):
        copied: dict[object, object] = {}
        for key, item in value.items():
            if left[0] <= 0:
                break
            left[0] -= len(key) if isinstance(key, str) else 1
            copied[key] = _pruned(item, left)
        return copied
    if isinstance(value, (list, tuple)):
        listed: list[object] = []
        for item in value:
            if left[0] <= 0:
                break
            listed.append(_pruned(item, left))
        return listed
    return value


def _other(value: object) -> object:
    """Return the JSON of something inside a structure that JSON has no form for."""
    return _bytes_text(value, None) if isinstance(value, (bytes, bytearray, memoryview)) else str(value)


def _without_nan(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return _no_number(value)
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return value


def _no_number(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _valid(text: str) -> str:
    """Return the text with lone halves of surrogate pairs replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
