"""The one order in which a chat template sees the keys of tools, whoever wrote them.

Templates print tools as they find them, so the order of their keys is part of the prompt. Clients
have one of their own and finetuning rows come back sorted; both are put in the order in which
schemas are usually written, so that a conversation has the same ids in training and in serving.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TOOL_KEYS = ("type", "function")
FUNCTION_KEYS = ("name", "description", "parameters")
SCHEMA_KEYS = ("type", "title", "description", "enum", "default", "items", "properties", "required")
NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keys of a schema whose value has a schema for each name."""
INNER_SCHEMAS = ("items", "prefixItems", "additionalProperties", "anyOf", "oneOf", "allOf", "not")
"""Keys of a schema whose value is a schema or a list of them."""


def order_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tools with their keys in the one order; values and lists stay as they are."""
    return [_order_tool(tool) for tool in tools]


def _order_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    found = _order(tool, TOOL_KEYS)
    function = found.get("function")
    if isinstance(function, dict):
        found["function"] = function = _order(function, FUNCTION_KEYS)
        if "parameters" in function:
            function["parameters"] = _order_schema(function["parameters"])
    return found


def _order_schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_order_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = _order(schema, SCHEMA_KEYS)
    for key, value in schema.items():
        if key in INNER_SCHEMAS:
            found[key] = _order_schema(value)
        elif key in NAMED_SCHEMAS and isinstance(value, dict):
            required = schema.get("required") if key == "properties" else ()
            named = {name: _order_schema(each) for name, each in value.items()}
            found[key] = _put_first(named, required if isinstance(required, list) else ())
    return found


def _order(value: Mapping[str, Any], first: Sequence[str]) -> dict[str, Any]:
    """Return an object with these keys first and what is plain data below it sorted."""
    return _put_first({key: _sort(each) for key, each in value.items()}, first)


def _put_first(value: Mapping[str, Any], first: Sequence[Any]) -> dict[str, Any]:
    """Return an object with these keys first, those it has, and the others in alphabetical order."""
    known = [key for key in dict.fromkeys(each for each in first if isinstance(each, str)) if key in value]
    return {key: value[key] for key in [*known, *sorted(value.keys() - set(known))]}


def _sort(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sort(value[key]) for key in sorted(value)}
    return [_sort(each) for each in value] if isinstance(value, list) else value
