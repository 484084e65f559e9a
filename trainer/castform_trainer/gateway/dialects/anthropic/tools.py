"""Anthropic tools as function tools: the client's own, and those whose schema the provider keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from castform_trainer.gateway.dialects.hosted import leave_out_hosted, refuse_tool
from castform_trainer.gateway.errors import ApiError

HOSTED = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "mcp_toolset", "advisor_")
"""What the types of tools begin with that the provider runs itself."""


def _text(about: str) -> dict[str, Any]:
    return {"type": "string", "description": about}


KNOWN: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "bash_": (
        "Run a command in a bash session that keeps its state.",
        {
            "command": _text("What to run."),
            "restart": {"type": "boolean", "description": "True starts a new session."},
        },
        (),
    ),
    "text_editor_": (
        "Look at, create and change text files.",
        {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
            "path": _text("The file or folder."),
            "file_text": _text("Content of a file to create."),
            "old_str": _text("Text to replace; it must occur once."),
            "new_str": _text("Text to put there."),
            "insert_line": {"type": "integer", "description": "Insert after this line."},
            "insert_text": _text("Text to insert."),
            "view_range": {"type": "array", "items": {"type": "integer"}},
        },
        ("command", "path"),
    ),
}
"""Tools that the client runs and names by type alone: description, parameters, required ones."""


def read_tools(value: Any) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return the tools in chat form and what the record says of those left out."""
    if not isinstance(value, list) or not all(isinstance(tool, dict) for tool in value):
        raise ApiError(400, "invalid_tools", "tools: must be a list of objects", param="tools")
    tools: list[dict[str, Any]] = []
    hosted, notes = [], []
    for place, tool in enumerate(value):
        kind = tool.get("type") or "custom"
        if not isinstance(kind, str):
            raise ApiError(400, "invalid_tools", f"tools.{place}.type: must be a string", param="tools")
        if kind.startswith(HOSTED):
            hosted.append(kind)
            continue
        tools.append(_read_own(tool, place) if kind == "custom" else _read_known(tool, kind))
        if tool.get("strict") is True:
            notes.append(f"tools.{tools[-1]['function']['name']}.strict=True->ignored")
    return tools, (*leave_out_hosted(hosted, tools), *notes)


def _read_own(tool: Mapping[str, Any], place: int) -> dict[str, Any]:
    name, schema = tool.get("name"), tool.get("input_schema")
    if not isinstance(name, str) or not name or not isinstance(schema, dict):
        raise ApiError(
            400, "invalid_tools", f"tools.{place}: name and input_schema are required", param=f"tools.{place}"
        )
    return _make_function(name, tool.get("description"), schema)


def _read_known(tool: Mapping[str, Any], kind: str) -> dict[str, Any]:
    for start, (about, parameters, required) in KNOWN.items():
        if kind.startswith(start):
            name = tool.get("name")
            schema = {"type": "object", "properties": parameters, "required": list(required)}
            return _make_function(name if isinstance(name, str) else start.strip("_"), about, schema)
    raise refuse_tool(kind)


def _make_function(name: str, about: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    if isinstance(about, str):
        function["description"] = about
    return {"type": "function", "function": {**function, "parameters": dict(schema)}}
