"""JSON schemas of tool parameters: check those that are given, tidy those that pydantic made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MAX_TOOL_NAME = 64
"""Characters."""
TOOL_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{MAX_TOOL_NAME}}}")
"""What OpenAI and the servers that speak its protocol take as the name of a function."""
MAX_DEPTH = 64
"""Levels of nesting that a schema may have."""
MAX_INLINED_CHARS = 8_000
"""A schema that is longer than this without `$ref` keeps its `$defs`."""
REF = "#/$defs/"
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose keys are names that somebody chose, not keywords."""


def check_tool_name(name: object) -> str:
    """Return a name that every server takes; ValueError says what is wrong with another."""
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise ValueError(
            f"a tool cannot be called {name!r}: 1 to {MAX_TOOL_NAME} letters a-z A-Z, digits, '_' and '-' are possible; "
            "FunctionTool(function=..., name='...') gives a function another name"
        )
    return name


def check_schema(tool_name: str, schema: object) -> None:
    """Raise ValueError unless the parameters of a tool are a JSON schema that can be written down.

    What contains itself is found, and so is anything that JSON has no form for; the
    message names the tool and the place.
    """
    if not isinstance(schema, Mapping):
        raise ValueError(
            f"tool {tool_name!r}: parameters must be a JSON schema (a mapping), not {type(schema).__name__}"
        )
    if schema.get("type", "object") != "object":
        raise ValueError(
            f"tool {tool_name!r}: parameters must be the schema of an object, not of {schema['type']!r}"
        )
    _check_value(tool_name, schema, "parameters", ())


def _check_value(tool_name: str, value: object, path: str, above: tuple[int, ...]) -> None:
    if value is None or isinstance(value, (str, int, float)):
        return
    if not isinstance(value, (Mapping, list, tuple)):
        raise ValueError(f"tool {tool_name!r}: {path} is {type(value).__name__}, which JSON has no form for")
    if id(value) in above:
        raise ValueError(
            f"tool {tool_name!r}: {path} contains itself; write a recursive schema with $defs and $ref"
        )
    if len(above) >= MAX_DEPTH:
        raise ValueError(f"tool {tool_name!r}: {path} is nested more than {MAX_DEPTH} levels deep")
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"tool {tool_name!r}: {path} has the key {key!r}, which is not text")
            _check_value(tool_name, item, f"{path}.{key}", inside)
    else:
        for place, item in enumerate(value):
            _check_value(tool_name, item, f"{path}[{place}]", inside)


def tidy_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema as models read it best: no titles, and no `$ref` where it can be written out.

    A type that contains itself stays a `$ref` into `$defs`, and so does everything when the
    schema would otherwise be longer than MAX_INLINED_CHARS.
    """
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    recursive = {name for name in definitions if name in _reachable(name, definitions)}
    body = {key: value for key, value in schema.items() if key != "$defs"}
    tidied: dict[str, Any]
    budget = [MAX_INLINED_CHARS]
    try:
        tidied = _tidied(body, definitions, recursive, budget)
        kept = recursive
    except _TooLongError:
        tidied, kept = _tidied(body, definitions, set(definitions), [10**9]), set(definitions)
    if kept:
        tidied["$defs"] = {
            name: _tidied(definitions[name], definitions, kept, [10**9])
            for name in definitions
            if name in kept
        }
    return tidied


class _TooLongError(Exception):
    """Written out, the schema is too long."""


def _tidied(
    schema: Any, definitions: Mapping[str, Any], kept: set[str], budget: list[int], *, names: bool = False
) -> Any:  # Any: a JSON schema is any JSON
    """Return a copy without titles, references other than those in `kept` written out."""
    if isinstance(schema, list):
        return [_tidied(item, definitions, kept, budget) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    name = str(schema.get("$ref", "")).removeprefix(REF)
    if not names and name in definitions and name not in kept:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions[name], **beside}
    copy: dict[str, Any] = {}
    for key, value in schema.items():
        if not names and (key == "discriminator" or (key == "title" and isinstance(value, str))):
            continue  # a discriminator's mapping points at definitions that are gone, and oneOf says it too
        budget[0] -= len(key) + (4 if isinstance(value, (Mapping, list)) else len(json.dumps(value)))
        if budget[0] < 0:
            raise _TooLongError
        copy[key] = _tidied(value, definitions, kept, budget, names=not names and key in NAMED)
    return copy


def _reachable(start: str, definitions: Mapping[str, Any]) -> set[str]:
    """Return the definitions that one refers to, directly or through others."""
    found: set[str] = set()
    waiting = [definitions[start]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, Mapping):
            name = str(value.get("$ref", "")).removeprefix(REF)
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
            waiting += value.values()
    return found
