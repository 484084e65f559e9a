"""JSON as its standard has it, and no deeper than what is read here can be written and read again.

Python's own reader also takes NaN, and makes infinity of 1e999. Neither can be written back:
whatever a client or a model says with them would reach others as no JSON. And how deep it can
read depends on the stack that it is called from: a record that one program wrote would be
unreadable to the next.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

DEEPEST = 200  # levels of lists and objects
NO_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^][{}"]+', re.DOTALL)
"""Strings, and whatever else is no bracket."""
INNERMOST = re.compile(r"\[\]|\{\}")


def parse_json(text: str | bytes) -> Any:
    """Return decoded JSON. ValueError for text that is none, RecursionError for one nested too deeply."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    value = json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)
    if text.count("[") + text.count("{") > DEEPEST and _count_levels(text) > DEEPEST:
        raise RecursionError(f"more than {DEEPEST} lists and objects are nested in each other")
    return value


def _count_levels(text: str) -> int:
    """Return how deep valid JSON is nested, or a number above DEEPEST."""
    brackets, levels = NO_BRACKETS.sub("", text), 0
    while brackets and levels <= DEEPEST:
        brackets = INNERMOST.sub("", brackets)
        levels += 1
    return levels


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _read_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return value
