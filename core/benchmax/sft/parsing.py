"""JSON text to Python values, strictly: no key twice, no NaN, nothing but UTF-8."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from benchmax.sft.limits import MAX_LEVELS
from benchmax.sft.wording import shown


class UnreadableError(Exception):
    """The text is no strict JSON; `code` is the code of the issue."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def parse_line(data: bytes) -> Any:
    """Return the value of one line of a file, with or without its newline. UnreadableError otherwise."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError("not_utf8", _encoding_fault(data, error)) from error
    return parse_text(text)


def parse_text(text: str) -> Any:
    """Return the value of a text. UnreadableError when it is not strict JSON.

    An integer of more than 4300 digits becomes infinity, as a decimal number outside the
    range of floats does: where it stands is for the check of the tree to say.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise UnreadableError("invalid_json", _syntax_fault(text, error)) from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError:  # an integer of more digits than Python reads
        return _parse_long_integers(text)


def parse_leniently(text: str) -> Any:
    """Return the value of a text that may name a key twice (the last one counts); ValueError otherwise.

    UnreadableError and RecursionError too; half the time of `parse_text`.
    """
    return _LENIENT_DECODER.decode(text)


def has_no_key_twice(data: bytes, canonical: bytes) -> bool:
    """Return whether a text certainly names no key twice, given the canonical text of what it decodes to.

    Both are UTF-8. A text has one colon for each key and those in its strings. A key that was lost
    takes at least its own with it, and a colon can be new in the canonical text only where the text
    wrote it by its number.
    """
    return data.count(b":") == canonical.count(b":") and b"\\u003" not in data


def _parse_long_integers(text: str) -> Any:
    try:
        return _LONG_INTEGER_DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise UnreadableError("invalid_json", _syntax_fault(text, error)) from error
    except RecursionError as error:
        raise _too_deep() from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise UnreadableError(
            "duplicate_key", f"an object names the key {shown(twice)} twice; keep one of them"
        )
    return found


def _refuse_constant(constant: str) -> NoReturn:
    raise UnreadableError("nonfinite_literal", f"{constant} is not JSON; write null or leave the key out")


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return math.inf


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
_LENIENT_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_LONG_INTEGER_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_integer
)


def _too_deep() -> UnreadableError:
    return UnreadableError(
        "too_deep", f"far more objects and lists inside one another than the {MAX_LEVELS} that are allowed"
    )


def _syntax_fault(text: str, error: json.JSONDecodeError) -> str:
    place = error.pos
    if place >= len(text.rstrip()) or error.msg.startswith("Unterminated"):
        return "not JSON: the text ends inside a value; the rest is missing"
    if error.msg.startswith("Extra data"):
        return f"not JSON: more text follows the value, at character {place + 1}"
    return f"not JSON: {error.msg} at character {place + 1}, {shown(text[place : place + 20])}"


def _encoding_fault(data: bytes, error: UnicodeDecodeError) -> str:
    if error.reason == "unexpected end of data" and not data.endswith(b"\n"):
        return "the file ends in the middle of a character; it looks cut off, so write or fetch it again"
    byte = f"byte {error.start + 1} of the line, 0x{data[error.start]:02x}"
    return f"not UTF-8 ({byte}); save the file as UTF-8"
