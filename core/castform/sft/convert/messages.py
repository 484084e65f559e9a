"""Messages with roles and content, as OpenAI and those who follow it write them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from benchmax.sft.limits import MAX_MESSAGES
from benchmax.sft.wording import shown
from castform.sft.convert.calls import read_calls
from castform.sft.convert.contents import is_parts, read_content
from castform.sft.convert.draft import Draft, Place, Row, json_text
from castform.sft.convert.linking import CallLinks
from castform.sft.convert.notes import RefusedError

ROLE_NAMES = {"developer": "system", "function": "tool"}
SYSTEM_ROLES = ("system", "developer")
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
FLAGS = ("train", "training", "loss")
"""Of a turn, in the words of axolotl and of ms-swift."""
WEIGHT_KEYS = frozenset(("weight", *FLAGS))
CALLS = ("tool_calls", "function_call")
TAKEN = frozenset({"role", "content", "weight"})
TAKEN_BY_ROLE: dict[object, frozenset[str]] = {
    "assistant": TAKEN | {*CALLS, "refusal"},
    "tool": TAKEN | {"tool_call_id", "name"},
}
"""The keys of a message that are read; of any other role the calls are, to be refused."""
TAKEN_OTHERWISE = TAKEN | {*CALLS}


def read_messages(messages: list[Any], places: list[Place], draft: Draft, *, says_ids: bool = True) -> None:
    """Add the messages of a conversation to a draft. RefusedError: one of them cannot be kept.

    What is wrong with a message in other ways stays as it is, for the check of the row to refuse.
    """
    _check_count(messages, places)
    links = CallLinks(draft, says_ids=says_ids)
    for index, (message, place) in enumerate(zip(messages, places, strict=True)):
        if not isinstance(message, dict):
            raise RefusedError("message_not_object", place.message, f"a message is {shown(message)}")
        _read_message(message, index, place, draft, links)
    links.close(at_end=True)
    _note_turns(draft)


def _check_count(messages: list[Any], places: list[Place]) -> None:
    """Raise RefusedError for far too many messages before time is spent on them; empty ones of the system go."""
    count = sum(not isinstance(each, dict) or each.get("role") not in SYSTEM_ROLES for each in messages)
    if count > MAX_MESSAGES:
        column = places[-1].message.rpartition("[")[0]
        text = f"{count} messages; a row has at most {MAX_MESSAGES}, so split the conversation"
        raise RefusedError("too_many_messages", column, text)


def _read_message(message: Row, index: int, place: Place, draft: Draft, links: CallLinks) -> None:
    location = place.message
    role = message.get("role")
    found: Row = {"role": role} if "role" in message else {}
    if isinstance(role, str) and role in ROLE_NAMES:
        found["role"] = ROLE_NAMES[role]
        draft.note("role_renamed", f"{location}.role", f"{role} is {found['role']}")
    if "content" in message:
        content = message["content"]
        is_data = found.get("role") == "tool" and not is_parts(content)
        found["content"] = content if is_data else read_content(content, place.content, draft)
    if not WEIGHT_KEYS.isdisjoint(message):
        _read_weight(message, found, location, draft)
    role = found.get("role")
    taken = TAKEN_BY_ROLE.get(role, TAKEN_OTHERWISE) if isinstance(role, str) else TAKEN_OTHERWISE
    if role == "assistant":
        links.close()
        _read_assistant(message, found, index, place, draft, links)
    elif role == "tool":
        _read_result(message, found, index, place, draft, links)
    else:
        links.close()
        _read_other(message, found, place, draft)
    if message.keys() <= taken:
        return
    rest = {key: value for key, value in message.items() if key not in taken}
    if "weight" not in message:
        rest = {key: value for key, value in rest.items() if not (key in FLAGS and isinstance(value, bool))}
    for key in REASONING_KEYS:
        if isinstance(rest.get(key), str) and rest[key]:
            draft.note("reasoning_not_trained", f"{location}.{key}", f"{key} is kept in the metadata only")
    draft.keep_fields(location, rest, message=index)


def _read_other(message: Row, found: Row, place: Place, draft: Draft) -> None:
    for key in CALLS:
        if message.get(key):
            found[key] = message[key]  # for the check of the row to refuse
        elif key in message:
            draft.null(f"{place.message}.{key}")
    if found.get("role") == "system" and found.get("content") in (None, ""):
        draft.note("system_removed", place.content, "the system message was empty")
    else:
        _append(found, place, draft)


def _read_assistant(
    message: Row, found: Row, index: int, place: Place, draft: Draft, links: CallLinks
) -> None:
    location = place.message
    calls = read_calls(message, index, location, draft)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal and not found.get("content"):
        found["content"] = refusal
        draft.note("refusal_as_content", f"{location}.refusal", "the refusal became the content")
    elif "refusal" in message:
        draft.keep_fields(location, {"refusal": refusal}, message=index)
    if calls is not None:
        found["tool_calls"] = calls
    _append(found, place, draft)
    if calls is not None:
        links.open(calls, f"{location}.tool_calls")


def _read_result(message: Row, found: Row, index: int, place: Place, draft: Draft, links: CallLinks) -> None:
    content = found.get("content")
    if content is None:
        found["content"] = ""
        draft.null(place.content)
    elif not isinstance(content, str):
        found["content"] = json_text(content)
        draft.note("content_encoded", place.content, f"the result was {shown(content)}")
    for key in ("tool_call_id", "name"):
        if key in message and message[key] is None:
            draft.null(f"{place.message}.{key}")
    if message.get("tool_call_id") is not None:
        found["tool_call_id"] = message["tool_call_id"]
    links.answer(found, index, message.get("name"), place)


def _read_weight(message: Row, found: Row, location: str, draft: Draft) -> None:
    """Set the weight of a message, from `weight` or from a flag that says whether it is trained on."""
    key, weight = "weight", message.get("weight")
    flags = [flag for flag in FLAGS if isinstance(message.get(flag), bool)]
    is_assistant = found.get("role") == "assistant"
    if "weight" not in message and flags:
        key = flags[0]
        weight = int(message[key])
        draft.note("weight_from_flag", f"{location}.{key}", f"{key} is {shown(message[key])}")
        if is_assistant:
            found["weight"] = weight
            return
    if weight is None:
        if "weight" in message:
            draft.null(f"{location}.weight")
        return
    if isinstance(weight, float) and weight in (0.0, 1.0):
        if is_assistant:
            draft.note("weight_integer", f"{location}.weight", f"{shown(weight)} is {int(weight)}")
        weight = int(weight)
    if not is_assistant and type(weight) is int and weight == 0:
        if key == "weight":
            draft.note("weight_removed", f"{location}.weight", f"of a {found.get('role')} message")
        return
    found["weight"] = weight


def _append(found: Row, place: Place, draft: Draft) -> None:
    draft.messages.append(found)
    draft.places.append(place)


def _note_turns(draft: Draft) -> None:
    roles = [message.get("role") for message in draft.messages]
    talk = [(role, place) for role, place in zip(roles, draft.places, strict=True) if role != "system"]
    if talk and talk[0][0] == "assistant":
        draft.note("starts_with_assistant", talk[0][1].message, "the first turn is the assistant's")
    repeats = [place for (before, _), (role, place) in pairwise(talk) if role == before and role != "tool"]
    if repeats:
        text = f"{len(repeats)} message{'' if len(repeats) == 1 else 's'} of the role before"
        draft.note("roles_repeat", repeats[0].message, text)
    if talk and talk[-1][0] == "user" and "assistant" in roles:
        draft.note("ends_without_answer", talk[-1][1].message, "the last turn is the user's")
