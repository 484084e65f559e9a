"""Chat messages of recorded calls as messages of a row, and the form in which two of them are compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

OPEN, CLOSE = "<think>", "</think>"
FAILED_RESULT = re.compile(
    r"Error: |Invalid arguments|Invalid JSON tool arguments|Tool arguments must be|Unknown tool: "
    r"|Tool '.*' took longer than "
)
"""How the result of a call begins that failed, as benchmax words it."""

Message = dict[str, Any]
_KEYS = {
    "system": ("role", "content"),
    "user": ("role", "content"),
    "assistant": ("role", "content", "tool_calls", "reasoning_content", "reasoning", "refusal"),
    "tool": ("role", "content", "tool_call_id"),
}


class UnfitError(ValueError):
    """A conversation that no row can hold; the text says why."""


def row_message(raw: Mapping[str, Any], changes: Counter[str]) -> Message:
    """Return a chat message in the form of a row. Thinking goes in front of the content, in its tags.

    `changes` counts what a row cannot say and what is therefore left out or written otherwise.
    Raises UnfitError for content that is no text. What is wrong with it besides is left in, for
    the check of the row.
    """
    role = "system" if raw.get("role") == "developer" else raw.get("role")
    message: Message = {"role": role, "content": _text(raw.get("content"))}
    if role == "tool":
        message["tool_call_id"] = raw.get("tool_call_id")
        message["content"] = message["content"] or ""
    if role == "assistant":
        thinking = raw.get("reasoning_content") or raw.get("reasoning")
        if isinstance(thinking, str) and thinking:
            message["content"] = f"{OPEN}\n{thinking}\n{CLOSE}\n\n{message['content'] or ''}"
        if raw.get("tool_calls"):
            message["tool_calls"] = [_row_call(call, changes) for call in raw["tool_calls"]]
            message["content"] = message["content"] or None
    for key in raw:
        if raw[key] is not None and key not in _KEYS.get(str(role), _KEYS["user"]):
            changes[f"`{key}` of a message left out"] += 1
    return message


def row_tools(raw: Sequence[Mapping[str, Any]], changes: Counter[str]) -> list[Message]:
    """Return tool definitions in the form of a row; `changes` as for `row_message`."""
    tools = []
    for tool in raw:
        function = dict(tool.get("function") or {})
        for key in sorted(set(function) - {"name", "description", "parameters"}):
            del function[key]
            changes[f"`{key}` of a tool left out"] += 1
        if function.get("description", "") is None:
            del function["description"]
        if function.get("parameters") is None:
            function["parameters"] = {"type": "object", "properties": {}}
            changes["a tool without parameters written as one that takes none"] += 1
        tools.append({"type": tool.get("type", "function"), "function": function})
    return tools


def compare_form(raw: Mapping[str, Any]) -> str:
    """Return what two forms of one message have in common, as JSON text.

    Null and empty content, the spelling of arguments and thinking, which most clients drop from
    what they send back, make no difference. Raises UnfitError like `row_message`.
    """
    plain = {key: value for key, value in raw.items() if key not in ("reasoning_content", "reasoning")}
    message = row_message(plain, Counter())
    message["content"] = message["content"] or ""
    for call in message.get("tool_calls", ()):
        function = call["function"] if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            function["arguments"] = _parsed(function["arguments"])
    return json.dumps(message, sort_keys=True, ensure_ascii=True, default=str)


def is_failed_result(message: Mapping[str, Any]) -> bool:
    """Tell whether a tool message says that its call failed."""
    return FAILED_RESULT.match(str(message.get("content") or "")) is not None


def _row_call(call: Any, changes: Counter[str]) -> Any:  # whatever a server put there
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return call
    arguments = function.get("arguments")
    if isinstance(arguments, Mapping):
        arguments = json.dumps(arguments, ensure_ascii=False)
        changes["arguments that were an object written as text"] += 1
    elif isinstance(arguments, str) and not arguments.strip():
        arguments = "{}"
        changes["empty arguments written as {}"] += 1
    named = {"name": function.get("name"), "arguments": arguments}
    return {"id": call.get("id"), "type": call.get("type", "function"), "function": named}


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _text(content: Any) -> Any:
    """Return content as text where it is a list of texts; what is neither stays, for the row's check."""
    if not isinstance(content, (list, tuple)):
        return content
    texts: list[str] = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        text = part.get("text") if isinstance(part, Mapping) else None
        if kind != "text" or not isinstance(text, str):
            raise UnfitError(f"content of type {kind!r}, which is no text")
        texts.append(text)
    return "".join(texts)
