"""Name an example by its content, so that the same row has the same id on every machine."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping

FORMAT_VERSION = 1
MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly."""
MAX_NESTING = 200
"""Deepest nesting of lists and objects; beyond it nothing readable is left, and recursion would overflow."""


def canonical_example_id(value: object) -> str:
    """Return the SHA-256 (hex) of a JSON-like value in canonical form.

    Key order does not matter, tuples count as lists, and numbers that are equal have one
    form: `1.0` is `1` and `-0.0` is `0`, while `True` stays apart from `1`.

    ValueError: a number that is not finite or not exact beyond 2^53-1, a key that is not
    text, text that is not valid Unicode, a nesting deeper than 200, or any other type.
    """
    envelope = {"v": FORMAT_VERSION, "value": _normalise(value, depth=0)}
    text = json.dumps(envelope, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _normalise(value: object, *, depth: int) -> object:
    if depth > MAX_NESTING:
        raise ValueError(f"value is nested deeper than {MAX_NESTING} levels")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _checked_text(value)
    if isinstance(value, int):
        return _checked_integer(int(value))
    if isinstance(value, float):
        return _normalised_float(float(value))
    if isinstance(value, (list, tuple)):
        return [_normalise(item, depth=depth + 1) for item in value]
    if isinstance(value, Mapping):
        return {_checked_key(key): _normalise(item, depth=depth + 1) for key, item in value.items()}
    raise ValueError(f"{type(value).__name__} is not JSON-canonicalizable")


def _checked_integer(value: int) -> int:
    if abs(value) > MAX_SAFE_INTEGER:
        raise ValueError("integers beyond 2^53-1 are not exact in JSON; give them as text")
    return value


def _normalised_float(value: float) -> int | float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return _checked_integer(int(value)) if value.is_integer() else value


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError(f"object keys must be strings, not {type(key).__name__}")
    return _checked_text(key)


def _checked_text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("text holds a lone surrogate, which is not valid UTF-8") from error
    return str(text)
