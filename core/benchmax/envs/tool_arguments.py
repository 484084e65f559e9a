"""Read the arguments that a model wrote for a tool call, and say what is wrong with them.

A fault is text for the model, never an exception: the model made it and may mend it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from benchmax.envs.tool_faults import ArgumentFault, argument_fault, cut, short_json

__all__ = ["ArgumentFault", "check_arguments", "parse_arguments"]

EMPTY_OBJECT = re.compile(r'\s*(\{\s*\}\s*"*\s*)?')
"""Servers write "no arguments" as nothing, blanks, {}, or {} with stray quotes behind it."""

PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def parse_arguments(text: object) -> dict[str, Any]:
    """Return the decoded arguments of a call. ArgumentFault when they are not a JSON object."""
    if text is None:
        return {}
    if isinstance(text, Mapping):
        return dict(text)
    if not isinstance(text, str):
        raise ArgumentFault("Tool arguments must be a JSON object.")
    if EMPTY_OBJECT.fullmatch(text):
        return {}
    try:
        arguments = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ArgumentFault(f"Invalid JSON tool arguments: {getattr(error, 'msg', error)}") from error
    if not isinstance(arguments, dict):
        raise ArgumentFault("Tool arguments must be a JSON object.")
    return arguments


def check_arguments(tool_name: str, arguments: Mapping[str, Any], schema: object) -> None:
    """Raise ArgumentFault when the arguments do not fit the tool's parameter schema.

    Looks at names, at what is required, and at the type and enum of each argument; what
    lies deeper is the tool's own business. A name that the schema does not list is a
    mistake unless `additionalProperties` (or `patternProperties`) allows it.
    """
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties")
    required = schema.get("required")
    faults: list[str] = []
    if isinstance(required, (list, tuple)):
        faults += [
            f"{name!r} is missing" for name in required if isinstance(name, str) and name not in arguments
        ]
    if isinstance(properties, Mapping):
        if not schema.get("additionalProperties") and not schema.get("patternProperties"):
            faults += [f"{cut(name)!r} is not a parameter" for name in arguments if name not in properties]
        for name, value in arguments.items():
            faults += _value_faults(name, value, properties.get(name))
    if faults:
        raise argument_fault(tool_name, faults, properties if isinstance(properties, Mapping) else ())


def _value_faults(name: str, value: object, schema: object) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    types = _declared_types(schema)
    if types is not None and not any(_has_type(value, each) for each in types):
        return [f"{name!r} must be {' or '.join(map(str, types))}, not {short_json(value)}"]
    choices = schema.get("enum")
    if isinstance(choices, (list, tuple)) and value not in choices:
        return [f"{name!r} must be one of {json.dumps(list(choices), default=str)}"]
    return []


def _declared_types(schema: Mapping[str, Any]) -> list[object] | None:
    """Return the types that a schema or the members of its union name; None when one of them names none."""
    declared = schema.get("type")
    if declared is None:
        members = schema.get("anyOf", schema.get("oneOf"))
        if not isinstance(members, (list, tuple)) or not all(isinstance(each, Mapping) for each in members):
            return None
        found = [_declared_types(each) for each in members]
        return None if None in found else [each for types in found for each in types or ()]
    if isinstance(declared, str):
        return [declared]
    return list(declared) if isinstance(declared, (list, tuple)) else None


def _has_type(value: object, declared: object) -> bool:
    if not isinstance(declared, str) or declared not in PYTHON_TYPES:
        return True
    if isinstance(value, bool):
        return declared == "boolean"
    if declared == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, PYTHON_TYPES[declared])


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
