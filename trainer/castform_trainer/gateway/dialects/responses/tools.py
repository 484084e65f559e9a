"""Responses tools as function tools, and calls between the two forms.

A template knows functions only. Tools with free text, a shell or a namespace become functions, and
what the model calls is given to the client in the form that belongs to the tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from castform_trainer.gateway.dialects.hosted import leave_out_hosted, refuse_tool
from castform_trainer.gateway.errors import ApiError

CallKind = Literal["custom", "local_shell"]
HOSTED = (
    *("web_search", "file_search", "code_interpreter", "image_generation", "mcp", "tool_search"),
    *("programmatic_tool_calling",),
)
"""What the types of tools begin with that the provider runs itself."""
SPACE = "__"
"""Between the name of a namespace and that of a function in it."""
SHELL_NAME = "local_shell"
SHELL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}, "description": "Program and arguments."},
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
        "env": {"type": "object", "additionalProperties": {"type": "string"}, "default": {}},
        "user": {"type": "string"},
    },
    "required": ["command"],
}
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input, as text."}},
    "required": ["input"],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Namespaced:
    """A function that the client knows by two names."""

    space: str
    name: str


Kinds = Mapping[str, CallKind | Namespaced]
"""What tools are no plain functions, by the names that the model sees."""


def read_tools(value: Any) -> tuple[list[dict[str, Any]], Kinds, tuple[str, ...]]:
    """Return tools in chat form, the kinds of those that are no plain functions, and notes for the record."""
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise _bad("tools must be a list of objects")
    tools: list[dict[str, Any]] = []
    kinds: dict[str, CallKind | Namespaced] = {}
    hosted: list[str] = []
    notes: list[str] = []
    for tool in value:
        kind = tool.get("type")
        if kind == "function":
            tools.append(_read_function(tool, ""))
        elif kind == "namespace":
            for each in _list_inner(tool):
                tools.append(_read_function(each, tool["name"] + SPACE))
                name = tools[-1]["function"]["name"]
                kinds[name] = Namespaced(space=tool["name"], name=each["name"])
        elif kind == "custom":
            tools.append(_read_custom(tool))
            kinds[tool["name"]] = "custom"
            if (tool.get("format") or {}).get("type", "text") != "text":
                notes.append(f"tools.{tool['name']}.format={tool['format']['type']}->text")
        elif kind == "local_shell":
            function = {"name": SHELL_NAME, "description": "Run a program.", "parameters": SHELL_SCHEMA}
            tools.append({"type": "function", "function": function})
            kinds[SHELL_NAME] = "local_shell"
        elif isinstance(kind, str) and kind.startswith(HOSTED):
            hosted.append(kind)
        else:
            raise refuse_tool(kind)
        if tool.get("strict") is True:
            notes.append(f"tools.{tool.get('name')}.strict=True->ignored")
    return tools, kinds, (*leave_out_hosted(hosted, tools), *notes)


def read_call(item: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a call that a client sends back, in chat form."""
    kind = item["type"]
    call_id, name = item.get("call_id"), item.get("name")
    if kind == "local_shell_call":
        action = item.get("action")
        if not isinstance(action, dict):
            raise _bad(f"{where}.action must be an object")
        name = SHELL_NAME
        arguments = json.dumps({k: v for k, v in action.items() if k != "type" and v not in (None, {})})
    elif kind == "custom_tool_call":
        arguments = json.dumps({"input": _text(item, "input", where)}, ensure_ascii=False)
    else:
        arguments = _text(item, "arguments", where)
    if not isinstance(call_id, str) or not isinstance(name, str):
        raise _bad(f"{where} needs a call_id and a name")
    if isinstance(item.get("namespace"), str) and item["namespace"]:
        name = item["namespace"] + SPACE + name
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def write_call(call: Mapping[str, Any], kinds: Kinds, item_key: str) -> dict[str, Any]:
    """Return the output item of a call in chat form; `item_key` makes its id."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    given = json.loads(arguments)
    kind = kinds.get(name)
    head = {"call_id": call["id"], "status": "completed"}
    if kind == "custom":
        text = given["input"] if isinstance(given.get("input"), str) else arguments
        return {"id": f"ctc_{item_key}", "type": "custom_tool_call", **head, "name": name, "input": text}
    if kind == "local_shell" and isinstance(given.get("command"), list):
        action = {**given, "type": "exec", "env": given.get("env") or {}}
        return {"id": f"lsh_{item_key}", "type": "local_shell_call", **head, "action": action}
    item = {"id": f"fc_{item_key}", "type": "function_call", **head, "name": name, "arguments": arguments}
    if isinstance(kind, Namespaced):
        return {**item, "name": kind.name, "namespace": kind.space}
    return item


def _read_function(tool: Mapping[str, Any], space: str) -> dict[str, Any]:
    name, parameters = tool.get("name"), tool.get("parameters") or {"type": "object", "properties": {}}
    if not isinstance(name, str) or not name or not isinstance(parameters, dict):
        raise _bad("a function tool needs a name, and its parameters must be an object")
    function: dict[str, Any] = {"name": space + name}
    if isinstance(tool.get("description"), str):
        function["description"] = tool["description"]
    return {"type": "function", "function": {**function, "parameters": parameters}}


def _list_inner(tool: Mapping[str, Any]) -> list[dict[str, Any]]:
    inner = tool.get("tools")
    if not isinstance(tool.get("name"), str) or not isinstance(inner, list):
        raise _bad("a namespace needs a name and a list of tools")
    for each in inner:
        if not isinstance(each, dict) or each.get("type") != "function":
            raise refuse_tool(each.get("type") if isinstance(each, dict) else each)
    return inner


def _read_custom(tool: Mapping[str, Any]) -> dict[str, Any]:
    asked_format = tool.get("format")
    if not isinstance(tool.get("name"), str) or not isinstance(asked_format or {}, dict):
        raise _bad("a custom tool needs a name, and its format must be an object")
    return _read_function({**tool, "parameters": INPUT_SCHEMA}, "")


def _text(item: Mapping[str, Any], key: str, where: str) -> str:
    if not isinstance(item.get(key), str):
        raise _bad(f"{where}.{key} must be text")
    return str(item[key])


def _bad(message: str) -> ApiError:
    return ApiError(400, "invalid_tools", message, param="tools")
