"""ShareGPT: `conversations` of turns with `from` and `value`, in the dialects of the tools that read it.

Calls are turns of their own (`function_call`, `tool_call`) whose value is JSON with `name` and `arguments`;
their results (`observation`, `tool`, `function`) have no ids and answer the calls in turn; or both are text
in tags (tagged.py). `system` and `tools` may be columns. Turns with `role` and `content` in place of `from`
and `value` are read too.
"""

from __future__ import annotations

from benchmax.sft.parsing import UnreadableError, parse_text
from benchmax.sft.wording import named, shown
from castform.sft.convert.draft import Draft, Place, Row, decoded_list
from castform.sft.convert.members import elements_of, members_of
from castform.sft.convert.messages import read_messages
from castform.sft.convert.notes import RefusedError
from castform.sft.convert.shapes import refuse_other_purposes, refuse_without_turns
from castform.sft.convert.tagged import OPENS, split_calls, split_results
from castform.sft.convert.tool_definitions import read_tools

COLUMNS = ("conversations", "conversation", "messages", "items")
ROLES: dict[str, str] = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "system": "system",
    "developer": "system",
    "observation": "tool",
    "tool": "tool",
    "function": "tool",
    "tool_response": "tool",
    "function_response": "tool",
    "function_call": "call",
    "tool_call": "call",
}
"""What each name in `from` is here. A `call` is an assistant message with tool calls."""


def convert_sharegpt(row: Row) -> Draft:
    """Convert a row of `conversations`. RefusedError."""
    refuse_other_purposes(row)
    column = next((name for name in COLUMNS if row.get(name) is not None), None)
    if column is None:
        refuse_without_turns(row, "conversations")
    assert column is not None
    draft = Draft()
    turns = decoded_list(row[column], f"$.{column}", draft)
    if not isinstance(turns, list):
        raise RefusedError("column_type", f"$.{column}", f"{column} is {shown(turns)}, not a list")
    messages: list[object] = []
    places: list[Place] = []
    _read_system(row, turns, messages, places, draft)
    has_tools = bool(row.get("tools") or row.get("functions"))
    for index, turn in enumerate(turns):
        key = "value" if isinstance(turn, dict) and "value" in turn else "content"
        place = Place(f"$.{column}[{index}]", f"$.{column}[{index}].{key}")
        message = _message(turn, place)
        found = _untagged(message, messages, place, draft, has_tools=has_tools)
        messages += found
        places += [place] * len(found)
    read_tools(row, draft)
    read_messages(messages, places, draft, says_ids=False)
    draft.keep_columns(row, (column, "system", "tools", "functions"))
    return draft


def recognise_sharegpt(row: Row) -> str | None:
    """Return why a row is of this format; None when it is not."""
    for column in COLUMNS:
        turns = row.get(column)
        if isinstance(turns, str) and turns.lstrip().startswith("[") and column != "messages":
            return f"`{column}` with a list as text"
        if not isinstance(turns, list) or not turns or not isinstance(turns[0], dict):
            continue
        if "from" in turns[0]:
            return f"`{column}` with `from`"
        if "role" in turns[0] and column != "messages":
            return f"`{column}` with `role`"
    return None


def _read_system(
    row: Row, turns: list[object], messages: list[object], places: list[Place], draft: Draft
) -> None:
    system = row.get("system")
    if "system" not in row:
        return
    if system is None:
        draft.null("$.system")
        return
    if not isinstance(system, str):
        raise RefusedError("column_type", "$.system", f"system is {shown(system)}, not text")
    first = turns[0] if turns and isinstance(turns[0], dict) else {}
    if system and ROLES.get(str(first.get("from", first.get("role")))) == "system":
        if first.get("value", first.get("content")) == system:
            return
        text = "the column system and the first turn are two different system messages; keep one"
        raise RefusedError("columns_clash", "$.system", text)
    messages.append({"role": "system", "content": system})
    places.append(Place("$.system", "$.system"))


def _message(turn: object, place: Place) -> object:
    """Return a turn as a message with role and content."""
    if not isinstance(turn, dict):
        return turn
    role_key = "from" if "from" in turn else "role"
    value_key = "value" if "value" in turn else "content"
    speaker = turn.get(role_key)
    role = ROLES.get(speaker.lower()) if isinstance(speaker, str) else None
    if role is None:
        text = f"{role_key} is {shown(speaker)}; known are {named(ROLES)}"
        raise RefusedError("speaker_unknown", f"{place.message}.{role_key}", text)
    rest = {key: value for key, value in turn.items() if key not in (role_key, value_key)}
    for key in ("role", "content", *(("tool_calls",) if role == "call" else ())):
        if key in rest:
            text = f"the turn has {key} beside {role_key} and {value_key}; keep one of them"
            raise RefusedError("columns_clash", place.message, text)
    if role != "call":
        return {**rest, "role": role, "content": turn.get(value_key)}
    return {**rest, "role": "assistant", "tool_calls": _calls(turn.get(value_key), place)}


def _untagged(
    message: object, before: list[object], place: Place, draft: Draft, *, has_tools: bool
) -> list[object]:
    """Return a message, or those that it becomes when calls or results are text in tags.

    RefusedError: tags of calls, in a row with tools, that are not calls at the end of the turn.
    """
    if not isinstance(message, dict) or not isinstance(message.get("content"), str):
        return [message]
    text, role = message["content"], message["role"]
    if role == "assistant" and OPENS in text and "tool_calls" not in message:
        found = split_calls(text)
        if found is None and has_tools:
            reason = f"the text has {OPENS} in it, but does not end on calls in such tags, each a JSON object"
            raise RefusedError("call_not_json", place.content, reason)
        if found is None:
            return [message]
        content, spelled = found
        draft.note("calls_from_text", place.content, f"{len(spelled)} in tags at the end of the text")
        calls = [_call(parse_text(each), place, each) for each in spelled]
        return [{**message, "content": content or None, "tool_calls": calls}]
    last = before[-1] if before else None
    follows_calls = isinstance(last, dict) and (last["role"] == "tool" or "tool_calls" in last)
    results = split_results(text) if role == "tool" or (role == "user" and follows_calls) else None
    if results is None:
        return [message]
    draft.note("results_from_text", place.content, f"{len(results)} in tags")
    more: list[object] = [{"role": "tool", "content": each} for each in results[1:]]
    return [{**message, "role": "tool", "content": results[0]}, *more]


def _calls(value: object, place: Place) -> list[object]:
    """Return the calls that a turn's value spells out; the text of arguments stays as it is."""
    if not isinstance(value, str):
        found = value if isinstance(value, list) else [value]
        return [_call(each, place) for each in found]
    try:
        parsed = parse_text(value)
    except UnreadableError as error:
        text = f"the value of a function call is JSON with name and arguments: {error.message}"
        raise RefusedError("call_not_json", place.content, text) from error
    if isinstance(parsed, list):
        return [_call(each, place, text) for each, text in zip(parsed, elements_of(value), strict=True)]
    return [_call(parsed, place, value)]


def _call(parsed: object, place: Place, text: str | None = None) -> object:
    if not isinstance(parsed, dict) or not isinstance(parsed.get("name"), str):
        raise RefusedError("call_not_json", place.content, "a function call has a name and arguments")
    key = "parameters" if "parameters" in parsed and "arguments" not in parsed else "arguments"
    arguments = parsed.get(key)
    if isinstance(arguments, dict) and text is not None:
        arguments = members_of(text)[key]
    rest = {each: value for each, value in parsed.items() if each not in ("name", key, "id")}
    function = {"name": parsed["name"], "arguments": arguments}
    return {**rest, "id": parsed.get("id"), "type": "function", "function": function}
