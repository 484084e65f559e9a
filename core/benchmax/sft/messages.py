"""The messages of a row, one after the other, with the results of tool calls."""

from __future__ import annotations

from collections.abc import Iterator

from benchmax.sft.calls import call_faults, call_ids
from benchmax.sft.issues import Fault
from benchmax.sft.keys import key_faults
from benchmax.sft.limits import MAX_MESSAGES
from benchmax.sft.windows import CallWindow
from benchmax.sft.wording import shown

ROLES = ("system", "user", "assistant", "tool")
KEYS: dict[str, tuple[str, ...]] = {
    "system": ("role", "content"),
    "user": ("role", "content"),
    "assistant": ("role", "content", "tool_calls", "weight"),
    "tool": ("role", "content", "tool_call_id"),
}
WEIGHT_NOTE = "; weight belongs to assistant messages"
LOCATION = "$.messages"

Message = dict[object, object]


def messages_faults(row: Message, functions: frozenset[str]) -> Iterator[Fault]:
    """Yield what is wrong with the messages of a row, in their order.

    `functions` are the names of the functions that the row defines, none when it defines no tools.
    """
    if "messages" not in row:
        yield Fault("messages_missing", LOCATION, "a row has messages, a list of at least one")
        return
    messages = row["messages"]
    if not isinstance(messages, list) or type(messages) is not list:
        yield Fault("messages_not_list", LOCATION, f"messages is {shown(messages)}, not a list")
        return
    if not messages:
        yield Fault("messages_empty", LOCATION, "messages is empty; a row has at least one")
        return
    if len(messages) > MAX_MESSAGES:
        text = f"{len(messages)} messages; a row has at most {MAX_MESSAGES}, so split the conversation"
        yield Fault("too_many_messages", LOCATION, text)
    window = CallWindow()
    for index, message in enumerate(messages):
        location = f"{LOCATION}[{index}]"
        if role_of(message) != "tool":
            yield from window.close()
        yield from _message_faults(message, location, functions, window)
    yield from window.close()


def role_of(message: object) -> str | None:
    """Return the role of a message when it has one that exists."""
    if not isinstance(message, dict) or type(message) is not dict:
        return None
    role = message.get("role")
    return role if isinstance(role, str) and type(role) is str and role in ROLES else None


def makes_call(message: object) -> bool:
    """Return whether a message is an assistant's with a tool call in it, sound or not."""
    if role_of(message) != "assistant" or not isinstance(message, dict):
        return False
    calls = message.get("tool_calls")
    return type(calls) is list and bool(calls)


def is_trained(message: object) -> bool:
    """Return whether a message is an assistant's of weight 1 that has content or a call."""
    if role_of(message) != "assistant" or not isinstance(message, dict):
        return False
    weight = message.get("weight", 1)
    return type(weight) is int and weight == 1 and (has_content(message) or makes_call(message))


def has_content(message: Message) -> bool:
    """Return whether there is content at all; content of a wrong kind has an issue of its own."""
    content = message.get("content")
    return content is not None and not (type(content) is str and not content)


def _message_faults(
    message: object, location: str, functions: frozenset[str], window: CallWindow
) -> Iterator[Fault]:
    if not isinstance(message, dict) or type(message) is not dict:
        yield Fault("message_not_object", location, f"a message is an object, not {shown(message)}")
        return
    role = role_of(message)
    if role is None:
        if "role" not in message:
            yield Fault("role_missing", f"{location}.role", f"a message has a role: {', '.join(ROLES)}")
        else:
            text = f"the role is one of {', '.join(ROLES)}, not {shown(message['role'])}"
            yield Fault("role_unknown", f"{location}.role", text)
        return
    note = WEIGHT_NOTE if role != "assistant" and "weight" in message else ""
    what = f"{'an' if role == 'assistant' else 'a'} {role} message"
    yield from key_faults(message, KEYS[role], location, what=what, note=note)
    if role == "assistant":
        yield from _assistant_faults(message, location, functions, window)
    elif role == "tool":
        yield from _result_faults(message, location, window)
    else:
        yield from _content_faults(message, location, role)


def _content_faults(message: Message, location: str, role: str) -> Iterator[Fault]:
    content = message.get("content")
    if type(content) is not str:
        found = shown(content) if "content" in message else "missing"
        hint = "; only text is trained on, no parts or images" if type(content) is list else ""
        text = f"the content of a {role} message is {found}, not a string{hint}"
        yield Fault("content_not_string", f"{location}.content", text)
    elif not content and role != "tool":
        yield Fault("content_empty", f"{location}.content", f"the content of a {role} message is empty")


def _assistant_faults(
    message: Message, location: str, functions: frozenset[str], window: CallWindow
) -> Iterator[Fault]:
    content = message.get("content")
    if content is not None and type(content) is not str:
        text = f"the content of an assistant message is {shown(content)}, neither a string nor null"
        yield Fault("content_not_string_or_null", f"{location}.content", text)
    if "weight" in message:
        weight = message["weight"]
        if type(weight) is not int or weight not in (0, 1):
            text = f"the weight is {shown(weight)}; it is the integer 0 (context) or 1 (trained), or left out"
            yield Fault("weight_invalid", f"{location}.weight", text)
    if "tool_calls" in message:
        calls, place = message["tool_calls"], f"{location}.tool_calls"
        if not isinstance(calls, list) or not makes_call(message):
            found = "empty" if type(calls) is list else shown(calls)
            text = f"tool_calls is {found}; it is a list of at least one call, or left out"
            yield Fault("tool_calls_empty", place, text)
        else:
            for index, call in enumerate(calls):
                yield from call_faults(call, f"{place}[{index}]", functions, window.seen)
            window.open(place, call_ids(calls))
    if not has_content(message) and not makes_call(message):
        yield Fault("assistant_empty", location, "an assistant message has content, a tool call or both")


def _result_faults(message: Message, location: str, window: CallWindow) -> Iterator[Fault]:
    yield from _content_faults(message, location, "tool")
    name = message.get("tool_call_id")
    if not isinstance(name, str) or type(name) is not str or not name:
        text = "a tool message names the call that it answers; tool_call_id is a non-empty string"
        yield Fault("tool_call_id_empty", f"{location}.tool_call_id", text)
    else:
        yield from window.answer(name, f"{location}.tool_call_id")
