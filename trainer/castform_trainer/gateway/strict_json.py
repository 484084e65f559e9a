"""JSON as its standard has it. Python's own reader also takes NaN, and makes infinity of 1e999.

Neither can be written back: whatever a client or a model says with them would reach others as no JSON.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def parse_json(text: str | bytes) -> Any:
    """Return decoded JSON. ValueError for text that is none, RecursionError for one nested too deeply."""
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _read_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return value
