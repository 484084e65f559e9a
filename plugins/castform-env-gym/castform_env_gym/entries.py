"""reasoning-gym's entries as JSON, and back exactly as they were.

Scorers look at the metadata of an entry, and some care whether a row is a tuple or a list
(those of arc_agi and rearc pay the right answer 0.05 when it is a list), or use whole numbers
as keys. Plain JSON keeps neither.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

TUPLE, PAIRS, FRACTION = "$tuple", "$pairs", "$fraction"


def pack(value: Any) -> Any:  # any value of an entry
    """Return JSON values that `unpack` turns back. TypeError for what is neither JSON, a tuple nor a fraction."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple):
        return {TUPLE: [pack(item) for item in value]}
    if isinstance(value, list):
        return [pack(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not value.keys() & {TUPLE, PAIRS, FRACTION}:
            return {key: pack(item) for key, item in value.items()}
        return {PAIRS: [[pack(key), pack(item)] for key, item in value.items()]}
    if isinstance(value, Fraction):
        return {FRACTION: [value.numerator, value.denominator]}
    raise TypeError(
        f"an entry holds a {type(value).__name__}, which cannot be written as JSON: {value!r:.80}"
    )


def unpack(value: Any) -> Any:
    """Return what `pack` was given."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if isinstance(value, dict):
        if TUPLE in value:
            return tuple(unpack(item) for item in value[TUPLE])
        if FRACTION in value:
            return Fraction(*value[FRACTION])
        if PAIRS in value:
            return {unpack(key): unpack(item) for key, item in value[PAIRS]}
        return {key: unpack(item) for key, item in value.items()}
    return value
