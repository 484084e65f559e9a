"""Find the JSON objects of a text. Strict: no repeated keys, no NaN, no number beyond a float."""

from __future__ import annotations

import json
import math
import re
from typing import Any

# Any: the objects are JSON of a judge's making.
_FENCE = re.compile(r"\s*```[\w-]*\s*(\{.*\})\s*```\s*", re.DOTALL)
_OPENING = re.compile(r'\{(?=\s*["}])')
"""A brace that begins an object, and not one of prose, code or LaTeX."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)
"""A string, the last one perhaps without an end, or a brace outside of strings. Possessive: never read twice."""


def whole_object(text: str) -> dict[str, Any] | None:
    """Return the object that the text is, bare or in one code fence; None when it is anything else."""
    fenced = _FENCE.fullmatch(text)
    return _decoded(fenced[1] if fenced else text)


def find_objects(text: str) -> list[dict[str, Any] | None]:
    """Return the objects that stand in the text, in order and outermost only.

    None stands for one that is malformed, or cut off by the end of the text; what is
    inside of it is not looked at.
    """
    objects: list[dict[str, Any] | None] = []
    opening = _OPENING.search(text)
    while opening is not None:
        end = _end_of_braces(text, opening.start())
        objects.append(_decoded(text[opening.start() : end]) if end else None)
        opening = _OPENING.search(text, end) if end else None
    return objects


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _end_of_braces(text: str, start: int) -> int | None:
    """Return where the brace at `start` is closed, or None when it is not."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is repeated")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no JSON number that a float can hold")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
