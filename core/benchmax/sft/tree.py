"""Is a Python value a JSON value that can be written and read again?"""

from __future__ import annotations

import math

from benchmax.sft.issues import Fault
from benchmax.sft.limits import MAX_INTEGER_DIGITS, MAX_LEVELS, MAX_LINE_BYTES, MAX_ROW_BYTES
from benchmax.sft.wording import member, shown

CONTAINER_COST = 16
"""A valid row has at most 524,288 values, so it stays far below the budget of MAX_LINE_BYTES."""
INTEGER_BOUND = 10**MAX_INTEGER_DIGITS

Place = tuple["Place", object] | str
"""Where a value is: the location of the root, or the place of the parent with the key or index in it."""


def tree_faults(root: object, location: str = "$") -> list[Fault]:
    """Return what keeps a value from being JSON, in document order.

    `row_too_large`, always last, says that the walk was given up: the value has no end that
    is worth looking for (a list that holds itself twice has 2^64 places within 64 levels).
    """
    walk = _Walk()
    try:
        walk.visit(root, location, 1)
    except _OverBudgetError:
        walk.faults.append(Fault("row_too_large", location, f"far over {MAX_ROW_BYTES:,} bytes; split it"))
    return walk.faults


def is_over_budget(faults: list[Fault]) -> bool:
    """Return whether the walk was given up."""
    return bool(faults) and faults[-1].code == "row_too_large"


class _OverBudgetError(Exception):
    pass


class _Walk:
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._budget = MAX_LINE_BYTES
        self._was_too_deep = False

    def visit(self, value: object, place: Place, level: int) -> None:
        kind = type(value)
        self._budget -= CONTAINER_COST
        if self._budget < 0:
            raise _OverBudgetError
        if isinstance(value, str) and kind is str:
            self._check_text(value, place, "a string")
        elif isinstance(value, (dict, list)) and kind in (dict, list):
            if level > MAX_LEVELS:
                self._report_depth(place)
            elif isinstance(value, dict):
                self._visit_members(value, place, level)
            else:
                for index, item in enumerate(value):
                    self.visit(item, (place, index), level + 1)
        elif isinstance(value, float) and kind is float:
            if not math.isfinite(value):
                self._report(
                    "not_finite", place, f"{shown(value)} is not a finite number; JSON has none such"
                )
        elif isinstance(value, int) and kind is int:
            if not _is_writable(value):
                text = f"an integer of more than {MAX_INTEGER_DIGITS} digits; write it as a string"
                self._report("not_finite", place, text)
        elif value is not None and kind is not bool:
            text = (
                f"{shown(value)} is not a JSON value; use a plain dict, list, str, int, float, bool or None"
            )
            self._report("not_json_type", place, text)

    def _visit_members(self, value: dict[object, object], place: Place, level: int) -> None:
        for key, item in value.items():
            if type(key) is not str:
                self._report("key_not_string", place, f"the key {shown(key)} is not a string")
                continue
            self._check_text(key, (place, key), "a key")
            self.visit(item, (place, key), level + 1)

    def _check_text(self, text: str, place: Place, what: str) -> None:
        self._budget -= len(text)
        if not text.isascii() and not _has_utf8_form(text):
            self._report("lone_surrogate", place, f"{what} holds half of a surrogate pair, {shown(text)}")

    def _report_depth(self, place: Place) -> None:
        if not self._was_too_deep:
            text = f"more than {MAX_LEVELS} objects and lists inside one another"
            self._report("too_deep", place, text)
        self._was_too_deep = True

    def _report(self, code: str, place: Place, message: str) -> None:
        self.faults.append(Fault(code, _location(place), message))


def _location(place: Place) -> str:
    if isinstance(place, str):
        return place
    parent, key = place
    return f"{_location(parent)}[{key}]" if isinstance(key, int) else member(_location(parent), key)


def _is_writable(number: int) -> bool:
    """Return whether an integer has a text form, here and in every Python with its usual limit."""
    if not -INTEGER_BOUND < number < INTEGER_BOUND:
        return False
    if number.bit_length() < 2000:
        return True
    try:
        str(number)  # a process may allow fewer digits than is usual
    except ValueError:
        return False
    return True


def _has_utf8_form(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
