"""How values, keys and places are written in the text of an issue. Nothing here can fail."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_TEXT = 60
MOST_NAMED = 8
PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")
JSON_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


def shown(value: object) -> str:
    """Return a value as one short line of printable text: scalars themselves, the rest by kind."""
    kind = type(value)
    if value is True or value is False or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if kind is str:
        assert isinstance(value, str)
        return repr(value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}…")
    if kind is int:
        assert isinstance(value, int)
        return repr(value) if abs(value) < 10**LONGEST_TEXT else "an integer of very many digits"
    if kind is float:
        return repr(value)
    return JSON_NAMES.get(kind) or f"a Python {kind.__name__}"


def named(names: Iterable[str]) -> str:
    """Return names as a short list, in the order given."""
    found = [shown(name) for name in names]
    more = len(found) - MOST_NAMED
    return ", ".join(found[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def listed_keys(keys: Iterable[object]) -> str:
    """Return keys, sorted, as a short list; a key that is no string stands as what it is."""
    everything = list(keys)
    strings = sorted(key for key in everything if type(key) is str)
    others = sorted(shown(key) for key in everything if type(key) is not str)
    return ", ".join(part for part in (named(strings), ", ".join(others[:MOST_NAMED])) if part)


def member(location: str, key: object) -> str:
    """Return the location of an object's member: `.key`, or `["key"]` where that could be misread."""
    if type(key) is str and PLAIN_KEY.fullmatch(key):
        return f"{location}.{key}"
    return f"{location}[{shown(key)}]"
