"""Tool calls of an assistant message, brought to the form of benchmax-sft-v1."""

from __future__ import annotations

from typing import Any

from benchmax.sft.parsing import UnreadableError, parse_text
from benchmax.sft.wording import shown
from castform.sft.convert.draft import Draft, Row, decoded_list, json_text
from castform.sft.convert.notes import RefusedError

CALL_KEYS = ("id", "type", "function")
FUNCTION_KEYS = ("name", "arguments")


def read_calls(message: Row, index: int, location: str, draft: Draft) -> list[Any] | None:
    """Return the calls of a message; ids as they are, None where they are missing."""
    calls = decoded_list(message.get("tool_calls"), f"{location}.tool_calls", draft)
    legacy = message.get("function_call")
    for key in ("tool_calls", "function_call"):
        if key in message and message[key] is None:
            draft.null(f"{location}.{key}")
    if isinstance(calls, list) and not calls:
        draft.note("calls_removed", f"{location}.tool_calls", "tool_calls was empty")
        calls = None
    if legacy is not None:
        if calls is not None:
            text = "the message has both tool_calls and function_call; keep one"
            raise RefusedError("columns_clash", location, text)
        draft.note("function_renamed", f"{location}.function_call", "function_call became a tool call")
        return [
            _read_call({"type": "function", "function": legacy}, index, 0, f"{location}.function_call", draft)
        ]
    if calls is None:
        return None
    if not isinstance(calls, list):
        text = f"tool_calls is {shown(calls)}; it is a list of calls"
        raise RefusedError("column_type", f"{location}.tool_calls", text)
    return [
        _read_call(call, index, number, f"{location}.tool_calls[{number}]", draft)
        for number, call in enumerate(calls)
    ]


def read_arguments(value: object, which: str, location: str, draft: Draft) -> object:
    """Return the arguments of a call as text. Text that decodes to an object stays as it is, to the character;
    what cannot be read stays too, for the check of the row to refuse."""
    if isinstance(value, dict):
        draft.note("arguments_encoded", location, f"the arguments of {which} were an object")
        return json_text(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        draft.note("arguments_empty", location, f"{which} had no arguments")
        return "{}"
    if isinstance(value, str) and value.lstrip()[:1] == '"':
        inner = _decoded_once(value)
        if inner is not None:
            draft.note("arguments_decoded", location, f"the arguments of {which} were encoded twice")
            return inner
    return value


def _read_call(call: object, index: int, number: int, location: str, draft: Draft) -> object:
    if not isinstance(call, dict):
        return call
    if "function" not in call and "name" in call:  # as some write them: without the frame
        frame = {key: value for key, value in call.items() if key not in FUNCTION_KEYS}
        call = {**frame, "function": {key: call[key] for key in FUNCTION_KEYS if key in call}}
        draft.note("call_wrapped", location, "the call had no function around its name and arguments")
    elif call.get("type") is None and isinstance(call.get("function"), dict):
        draft.note("call_wrapped", location, "the call had no type")
    function = call.get("function")
    found: Row = {"id": call.get("id"), "type": call.get("type") or "function", "function": function}
    if isinstance(function, dict):
        which = f"{shown(function.get('name'))} in the call {shown(call.get('id'))}"
        place = f"{location}.function.arguments"
        found["function"] = {
            "name": function.get("name"),
            "arguments": read_arguments(function.get("arguments"), which, place, draft),
        }
        rest = {key: value for key, value in function.items() if key not in FUNCTION_KEYS}
        draft.keep_fields(f"{location}.function", rest, message=index, call=number)
    rest = {key: value for key, value in call.items() if key not in CALL_KEYS}
    draft.keep_fields(location, rest, message=index, call=number)
    return found


def _decoded_once(text: str) -> str | None:
    """Return the text inside a JSON string when that decodes to an object."""
    try:
        inner = parse_text(text)
        return inner if isinstance(inner, str) and isinstance(parse_text(inner), dict) else None
    except UnreadableError:
        return None
