"""JSON as its standard has it, and no deeper than what is read here can be written and read again.

Python's own reader also takes NaN, and makes infinity of 1e999. Neither can be written back:
whatever a client or a model says with them would reach others as no JSON. And how deep it can
read depends on the stack that it is called from: a record that one program wrote would be
unreadable to the next.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

DEEPEST = 200  # levels of lists and objects


def parse_json(text: str | bytes) -> Any:
    """Return decoded JSON. ValueError for text that is none, RecursionError for one nested too deeply."""
    value = json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)
    brackets = map(text.count, (b"[", b"{")) if isinstance(text, bytes) else map(text.count, "[{")
    if sum(brackets) > DEEPEST and _count_levels(value) > DEEPEST:
        raise RecursionError(f"more than {DEEPEST} lists and objects are nested in each other")
    return value


def _count_levels(value: Any) -> int:
    """Return how many lists and objects are nested in each other."""
    levels, inside = 0, [value]
    while found := [each for each in inside if isinstance(each, (dict, list))]:
        levels += 1
        inside = [inner for each in found for inner in (each.values() if isinstance(each, dict) else each)]
    return levels


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _read_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return value
