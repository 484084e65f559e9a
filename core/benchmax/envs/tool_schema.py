"""Derive a JSON schema from a function's signature, for the hints that have a plain form."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

PLAIN_TYPES: Mapping[object, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def make_parameters(function: Callable[..., object]) -> dict[str, Any]:
    """Return the schema of an object with the function's parameters as properties.

    `str int float bool None`, `list[T]`, `dict[str, T]`, `Literal`, `Enum` and unions are
    described; `Annotated[T, "words"]` adds a description; any other hint leaves the value
    open. Parameters without a default are required; `**kwargs` allows other names.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):  # hints that only exist for the type checker
        hints = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    open_ended = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            open_ended = True
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            properties[parameter.name] = value_schema(hints.get(parameter.name, Any))
            if parameter.default is inspect.Parameter.empty:
                required.append(parameter.name)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = open_ended
    return schema


def value_schema(hint: Any) -> dict[str, Any]:  # Any: a type hint is any object
    """Return the schema of one type hint; an empty one where there is no plain form."""
    if hint in PLAIN_TYPES:
        return {"type": PLAIN_TYPES[hint]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        words = [extra for extra in hint.__metadata__ if isinstance(extra, str)]
        return value_schema(hint.__origin__) | ({"description": words[0]} if words else {})
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is Union or origin is types.UnionType:
        return _union_schema(arguments)
    if origin in (list, tuple, set, frozenset, Sequence, typing.Sequence):
        items = value_schema(arguments[0]) if arguments else {}
        return {"type": "array"} | ({"items": items} if items else {})
    if origin in (dict, Mapping, typing.Mapping):
        values = value_schema(arguments[1]) if len(arguments) == 2 else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    return {}


def _union_schema(arguments: Sequence[Any]) -> dict[str, Any]:
    members = [value_schema(argument) for argument in arguments]
    if not all(members):
        return {}
    if all(member.keys() == {"type"} for member in members):
        return {"type": [member["type"] for member in members]}
    return {"anyOf": members}
