"""From what the model says to an action, and from an observation to what the model sees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmax.envs import RolloutFailure, Tool
from benchmax.rewards.answers.reading import without_thinking

Json = Mapping[str, Any]

STEP_TOOL = "step"
OURS = "metadata"
"""A field that every OpenEnv action and observation has, and that is for the host, not for the model."""
_NOT_SHOWN = frozenset({OURS, "done", "reward"})


def text_field(schema: Json | None, wanted: str | None) -> str:
    """Return the field of an action that a reply goes into.

    RolloutFailure (`sandbox_error`): the schema has no such field, or nothing says which it is.
    """
    fields = _fields(schema)
    if wanted is not None:
        if schema is not None and fields and wanted not in fields:
            raise RolloutFailure(
                "sandbox_error",
                f"the server's actions have no field {wanted!r}; action_field can be {' or '.join(fields)}",
            )
        return wanted
    required = [name for name in (schema or {}).get("required", ()) if name in fields]
    candidates = required if len(required) == 1 else list(fields)
    if len(candidates) != 1:
        raise RolloutFailure(
            "sandbox_error",
            f"the server's actions have {len(fields)} fields ({', '.join(fields) or 'no schema'}): name the one "
            "that a reply goes into with action_field, or set action = 'step'",
        )
    return candidates[0]


def make_text_action(reply: str, field: str, schema: Json | None, extra: Json) -> Json:
    """Return the action that a reply is. ValueError, with words for the model, when the field is no text.

    A field that is text takes the reply without its thinking; any other one takes JSON.
    """
    said = without_thinking(reply).strip()
    kind = _fields(schema).get(field, {}).get("type", "string")
    if kind == "string":
        return {**extra, field: said}
    try:
        value = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Reply with one JSON value of the type {kind}, and nothing else.") from error
    return {**extra, field: value}


def make_step_tool(schema: Json | None) -> Tool:
    """Return the tool whose arguments are an action."""
    parameters = dict(schema or {"type": "object"})
    parameters.pop("title", None)
    parameters["properties"] = _fields(schema)
    if "required" in parameters:
        parameters["required"] = [name for name in parameters["required"] if name in parameters["properties"]]
    description = str(parameters.pop("description", "") or "Take one action in the episode.").strip()
    return {
        "type": "function",
        "function": {"name": STEP_TOOL, "description": description, "parameters": parameters},
    }


def read_listed_tools(observation: Json) -> list[Tool]:
    """Return the tools that a server lists. RolloutFailure (`sandbox_error`): it lists none."""
    listed = observation.get("tools")
    tools: list[Tool] = [
        {
            "type": "function",
            "function": {
                "name": str(each.get("name")),
                "description": str(each.get("description") or ""),
                "parameters": each.get("input_schema") or {"type": "object", "properties": {}},
            },
        }
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, Mapping)
    ]
    if not tools:
        raise RolloutFailure(
            "sandbox_error",
            "the server lists no tools: set action = 'step' or 'text' for a server without MCP",
        )
    return tools


def show_observation(observation: Json, field: str | None) -> str:
    """Return what the model sees: one field as it is, or everything but the host's part as JSON."""
    if field is not None and field in observation:
        value = observation[field]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = {name: value for name, value in observation.items() if name not in _NOT_SHOWN}
    return json.dumps(shown, ensure_ascii=False)


def show_tool_result(observation: Json) -> str:
    """Return what a tool of the server gave back, its error where it failed."""
    error = observation.get("error")
    if isinstance(error, Mapping):
        return f"Error: {error.get('message')}"
    result = observation.get("result", observation)
    if isinstance(result, Mapping) and "data" in result:  # FastMCP's own wrapping of a plain value
        result = result["data"]
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)


def _fields(schema: Json | None) -> dict[str, Any]:
    properties: Json = (schema or {}).get("properties") or {}
    return {name: value for name, value in properties.items() if name != OURS and isinstance(value, Mapping)}


def last_reply(messages: Sequence[Json]) -> str:
    """Return the text of the last message."""
    content = messages[-1].get("content")
    return content if isinstance(content, str) else ""
