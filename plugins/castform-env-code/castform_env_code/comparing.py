"""Compare what came back from a candidate with what was expected, both as `encode` writes them."""

from __future__ import annotations

import math
from typing import Any

MAX_DEPTH = 60
FLOAT_TOLERANCE = 1e-9
"""Relative, and absolute near zero."""


# Any: JSON, of which one side comes from a process that the model's code ran in
def is_same(got: Any, expected: Any, depth: int = 0) -> bool:
    """Whether two encoded values are equal and of the same types all the way down.

    1, 1.0 and True differ; so do lists and tuples. Dictionaries may come in any order. Floats
    may differ by rounding; nan equals nan.
    """
    if depth > MAX_DEPTH or type(got) is not type(expected):
        return False
    if not isinstance(expected, dict):
        return not isinstance(expected, list) and bool(got == expected)
    if set(got) != set(expected) or len(got) != 1:
        return False
    ((kind, wanted),) = expected.items()
    given = got[kind]
    if kind == "float":
        return _is_same_float(given, wanted)
    if not isinstance(given, list) or len(given) != len(wanted):
        return False
    if kind == "dict":
        return _is_same_dict(given, wanted, depth)
    return all(is_same(one, other, depth + 1) for one, other in zip(given, wanted, strict=True))


def _is_same_float(given: Any, wanted: str) -> bool:
    try:
        one, other = float(given), float(wanted)
    except (TypeError, ValueError):
        return False
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=FLOAT_TOLERANCE, abs_tol=FLOAT_TOLERANCE)


def _is_same_dict(given: list[Any], wanted: list[Any], depth: int) -> bool:
    left = list(given)
    for key, value in wanted:
        for index, pair in enumerate(left):
            if isinstance(pair, list) and len(pair) == 2 and is_same(pair[0], key, depth + 1):
                if not is_same(pair[1], value, depth + 1):
                    return False
                del left[index]
                break
        else:
            return False
    return not left
