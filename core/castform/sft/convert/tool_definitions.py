"""Tools that a row defines, brought to the form of benchmax-sft-v1."""

from __future__ import annotations

from typing import Any

from benchmax.sft.wording import shown
from castform.sft.convert.draft import Draft, Row, decoded_list, json_text
from castform.sft.convert.notes import RefusedError

FUNCTION_KEYS = ("name", "description", "parameters")


def read_tools(row: Row, draft: Draft) -> None:
    """Set the draft's tools from `tools` or, in the older spelling, `functions`."""
    tools = _read_list(row, "tools", draft)
    functions = _read_list(row, "functions", draft)
    if functions:
        if tools and [json_text(tool) for tool in tools] != [json_text(tool) for tool in functions]:
            raise RefusedError(
                "columns_clash", "$", "tools and functions define different things; keep one of them"
            )
        draft.note("function_renamed", "$.functions", "functions became tools")
        tools = functions
    draft.tools = tools


def _read_list(row: Row, key: str, draft: Draft) -> list[Any] | None:
    location = f"$.{key}"
    if key not in row:
        return None
    if row[key] is None or row[key] == "":
        draft.null(location)
        return None
    tools = decoded_list(row[key], location, draft)
    if isinstance(tools, dict):
        tools = [tools]
    if not isinstance(tools, list):
        raise RefusedError("column_type", location, f"{key} is {shown(tools)}; it is a list of definitions")
    found: list[Any] = []
    seen: set[str] = set()
    for number, tool in enumerate(tools):
        place = f"{location}[{number}]"
        definition = _read_tool(tool, number, place, draft, is_legacy=key == "functions")
        text = json_text(definition)
        if text in seen:
            draft.note("tool_duplicate_removed", place, "the same definition stands before it")
            continue
        seen.add(text)
        found.append(definition)
    return found


def _read_tool(tool: object, number: int, location: str, draft: Draft, *, is_legacy: bool) -> object:
    if not isinstance(tool, dict):
        return tool
    if "function" not in tool and "name" in tool:
        if not is_legacy:
            draft.note("call_wrapped", location, "the tool had no function around its name and parameters")
        kind = tool.get("type")  # "function" in the Responses API; anything else is no frame
        bare = {key: value for key, value in tool.items() if key != "type" or kind != "function"}
        return _framed("function", bare, {}, number, location, draft)
    function = tool.get("function")
    if not isinstance(function, dict):
        return tool
    if tool.get("type") is None:
        draft.note("call_wrapped", location, "the tool had no type")
    frame = {key: value for key, value in tool.items() if key not in ("type", "function")}
    return _framed(tool.get("type") or "function", function, frame, number, f"{location}.function", draft)


def _framed(kind: object, function: Row, frame: Row, number: int, location: str, draft: Draft) -> Row:
    """Return a tool of the format; keys that it does not know are kept in the draft."""
    found: Row = {}
    for key in FUNCTION_KEYS:
        if function.get(key) is not None:
            found[key] = function[key]
        elif key in function:
            draft.null(f"{location}.{key}")
    if "parameters" not in found:
        draft.note("parameters_added", location, f"{shown(found.get('name'))} has no parameters")
        found["parameters"] = {"type": "object", "properties": {}}
    rest = {key: value for key, value in function.items() if key not in FUNCTION_KEYS}
    draft.keep_fields(location, {**frame, **rest}, tool=number)
    return {"type": kind, "function": found}
