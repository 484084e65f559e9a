"""The values of a JSON object or list as they are spelled, so that arguments stay as they were to the character.

For text that is known to be strict JSON.
"""

from __future__ import annotations

import json
import re

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def members_of(text: str) -> dict[str, str]:
    """Return the spelling of each value of an object, by key."""
    found: dict[str, str] = {}
    place = _skip(text, 0) + 1
    while text[(place := _skip(text, place))] != "}":
        key, place = _DECODER.raw_decode(text, place)
        start = _skip(text, _skip(text, place) + 1)
        _, end = _DECODER.raw_decode(text, start)
        found[key] = text[start:end]
        place = _behind_comma(text, end)
    return found


def elements_of(text: str) -> list[str]:
    """Return the spelling of each element of a list."""
    found: list[str] = []
    place = _skip(text, 0) + 1
    while text[(start := _skip(text, place))] != "]":
        _, end = _DECODER.raw_decode(text, start)
        found.append(text[start:end])
        place = _behind_comma(text, end)
    return found


def _skip(text: str, place: int) -> int:
    space = _SPACE.match(text, place)
    assert space is not None
    return space.end()


def _behind_comma(text: str, place: int) -> int:
    place = _skip(text, place)
    return place + 1 if text[place] == "," else place
