"""Say in few words what is wrong with the arguments of a tool call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

MAX_FAULTS = 8
"""Faults that are spelled out; the rest is counted."""
MAX_FAULT_CHARS = 300
"""Of one fault."""
MAX_VALUE_CHARS = 80
"""Of a value or name that the model wrote and that is repeated to it."""
MAX_NAMES = 20
"""Parameters that are listed."""

TOO_DEEP = "they are nested too deeply"
NOT_UNICODE = "they hold text that is not valid Unicode"
SHOULD_BE = "Input should be "
JSON_TYPES: Mapping[str, str] = {
    "string_type": "string",
    "int_type": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "list_type": "array",
    "tuple_type": "array",
    "set_type": "array",
    "frozen_set_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "dataclass_type": "object",
    "none_required": "null",
}
"""Of pydantic's error types, those that name what JSON calls a type."""


class ArgumentFault(Exception):  # noqa: N818 - the model's fault, told to the model; nothing broke
    """The arguments cannot be used; the message is meant for the model."""


def argument_fault(tool_name: str, faults: Sequence[str], parameters: Iterable[str]) -> ArgumentFault:
    """Return the fault with everything that is wrong, and what the tool takes."""
    told = [cut(fault, MAX_FAULT_CHARS) for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        told.append(f"and {len(faults) - MAX_FAULTS} more")
    names = list(parameters)
    known = ", ".join(map(repr, names[:MAX_NAMES])) + (", ..." if len(names) > MAX_NAMES else "")
    return ArgumentFault(
        f"Invalid arguments for tool {tool_name!r}: {'; '.join(told)}. Its parameters: {known or 'none'}."
    )


def cut(text: str, limit: int = MAX_VALUE_CHARS) -> str:
    """Return the text, or its beginning and an ellipsis."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def short_json(value: object) -> str:
    """Return a value as JSON of at most some 80 characters, without writing the rest of a long one."""
    if isinstance(value, str):
        return json.dumps(value[: MAX_VALUE_CHARS + 1], ensure_ascii=False)[:MAX_VALUE_CHARS]
    encoder = json.JSONEncoder(ensure_ascii=False, default=str)
    return "".join(islice(encoder.iterencode(value), MAX_VALUE_CHARS))[:MAX_VALUE_CHARS]


def describe_validation(errors: Iterable[Mapping[str, Any]], arguments: Mapping[str, Any]) -> list[str]:
    """Return pydantic's errors in words, those at one place as one: `'days' must be integer, not "two"`."""
    places: dict[str, tuple[list[str], list[str], str]] = {}
    for error in errors:
        place, depth, value = _find_place(error, arguments)
        wholes, demands, _ = places.setdefault(place, ([], [], short_json(value)))
        if error["type"] == "missing":
            wholes.append(f"{place} is missing")
        elif error["type"] == "extra_forbidden":
            wholes.append(f"{place} is not a {'parameter' if depth == 1 else 'field'}")
        elif error["type"] == "json_invalid":
            deep = "recursion" in error["msg"]
            wholes.append(TOO_DEEP if deep else NOT_UNICODE)
        elif error["type"] in JSON_TYPES or error["msg"].startswith(SHOULD_BE):
            demands.append(JSON_TYPES.get(error["type"]) or error["msg"].removeprefix(SHOULD_BE))
        else:
            words = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            wholes.append(f"{place}: {words}")
    faults: list[str] = []
    for place, (wholes, demands, value) in places.items():
        faults += dict.fromkeys(wholes)
        if demands:
            faults.append(f"{place} must be {' or '.join(dict.fromkeys(demands))}, not {value}")
    return faults


def _find_place(error: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, int, object]:
    """Return where an error is, as a quoted path, how deep that is, and the value there.

    pydantic's location also holds the members of unions that it tried; they are no place in
    the arguments and are left out.
    """
    value: object = arguments
    path = ""
    depth = 0
    for place, part in enumerate(error["loc"]):
        if isinstance(part, int) and isinstance(value, list):
            path += f"[{part}]"
            value = value[part] if part < len(value) else None
        elif isinstance(value, Mapping) and (
            part in value or (error["type"] == "missing" and place == len(error["loc"]) - 1)
        ):
            path += f".{cut(str(part))}" if path else cut(str(part))
            value = value.get(part)
        else:
            continue
        depth += 1
    return repr(path), depth, value
