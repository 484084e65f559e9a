"""Is a row certainly sound? The short way past all checks, for the rows that data mostly consists of.

It says yes only to rows that benchmax.sft.rows finds no fault in; to what is rare or costly to
decide it says no, and the row is looked at in full. It leaves to the caller what only encoding the
row shows: whether all strings have a UTF-8 form, and how large the row and its metadata are.
"""

from __future__ import annotations

import marshal
from math import isfinite
from typing import Any

from benchmax.sft.canonical import canonical_bytes, canonical_text
from benchmax.sft.limits import (
    MAX_LEVELS,
    MAX_MESSAGES,
    MAX_ROW_BYTES,
    MAX_TOOLS,
    RESERVED_PREFIX,
)
from benchmax.sft.parsing import UnreadableError, parse_leniently, parse_text

PLAIN_ROLES = ("user", "assistant", "system")
ROW_KEYS = frozenset({"messages", "tools", "metadata"})
CALL_KEYS = frozenset({"id", "type", "function"})
TOOL_KEYS = frozenset({"type", "function"})
FUNCTION_KEYS = frozenset({"name", "description", "parameters"})
PARAMETERS_LEVEL = 5
METADATA_LEVEL = 2
LARGE_INTEGER = 10**300


class KnownTools:
    """The tools of the last sound row of a file, as many rows in turn have the same.

    For values that a JSON parser made. They are compared by their marshalled bytes, since 1, 1.0 and
    True are equal and are not written alike.
    """

    __slots__ = ("functions", "key", "text")

    def __init__(self) -> None:
        self.key = b""
        self.functions: set[str] = set()
        self.text = ""
        """The tools as canonical text."""

    def are_clean(self, tools: Any) -> bool:
        """Return whether tools are sound; they are the last ones from now on."""
        try:
            key = marshal.dumps(tools, 2)  # from version 3 on the bytes depend on which objects are shared
        except ValueError:  # nested too deeply
            return False
        if key != self.key:
            functions: set[str] = set()
            if not _are_tools_clean(tools, functions):
                return False
            self.key, self.functions, self.text = key, functions, canonical_text(tools)
        return True


def is_clean(row: object, known: KnownTools | None = None) -> bool:
    """Return whether a row has no fault, apart from sizes and strings without a UTF-8 form.

    `known` saves the check of tools that equal the last ones, and remembers them.
    """
    if type(row) is not dict or not row.keys() <= ROW_KEYS:
        return False
    functions: set[str] = set()
    if "tools" in row:
        if known is None:
            if not _are_tools_clean(row["tools"], functions):
                return False
        elif known.are_clean(row["tools"]):
            functions = known.functions
        else:
            return False
    if "metadata" in row and not _is_metadata_clean(row["metadata"]):
        return False
    messages = row.get("messages")
    if type(messages) is not list or len(messages) > MAX_MESSAGES:
        return False
    waiting: list[str] = []  # ids of calls without a result, the next one last
    seen: set[str] = set()
    trained = False
    characters = 0
    for message in messages:
        if type(message) is not dict:
            return False
        role, content = message.get("role"), message.get("content")
        if type(role) is not str:
            return False
        if type(content) is str:
            characters += len(content)
            if content and len(message) == 2 and not waiting and role in PLAIN_ROLES:  # most messages
                trained = trained or role == "assistant"
                continue
        if role == "tool":
            if type(content) is not str or len(message) != 3 or not waiting:
                return False
            answered = message.get("tool_call_id")
            if type(answered) is not str or answered != waiting.pop():
                return False
        elif waiting:
            return False
        elif role == "assistant":
            size = 1
            has_calls = "tool_calls" in message
            if has_calls:
                size += 1
                ids = _clean_call_ids(message["tool_calls"], functions, seen)
                if ids is None:
                    return False
                waiting = ids
            if "content" in message:
                size += 1
                if type(content) is not str and content is not None:
                    return False
            if not content and not has_calls:
                return False
            weight = message.get("weight", 1)
            if "weight" in message:
                size += 1
            if type(weight) is not int or (weight != 1 and weight != 0) or len(message) != size:
                return False
            trained = trained or weight == 1
        else:
            return False
    return trained and not waiting and characters <= MAX_ROW_BYTES


def _clean_call_ids(calls: object, functions: set[str], seen: set[str]) -> list[str] | None:
    """Return the ids of the calls, the last one first, or None when one is not certainly sound."""
    if type(calls) is not list or not calls:
        return None
    ids: list[str] = []
    for call in calls:
        if type(call) is not dict or call.keys() != CALL_KEYS:
            return None
        name, kind, function = call["id"], call["type"], call["function"]
        if type(name) is not str or not name or name in seen or type(kind) is not str or kind != "function":
            return None
        seen.add(name)
        ids.append(name)
        if type(function) is not dict or len(function) != 2:
            return None
        called, arguments = function.get("name"), function.get("arguments")
        if type(called) is not str or called not in functions or type(arguments) is not str:
            return None
        if not _are_arguments_clean(arguments):
            return None
    ids.reverse()
    return ids


def _are_arguments_clean(text: str) -> bool:
    if len(text) > MAX_ROW_BYTES:
        return False
    try:
        arguments = parse_leniently(text)
        # As many colons as keys: no object inside has a key, and none was named twice.
        if type(arguments) is dict and text.count(":") != len(arguments):
            arguments = parse_text(text)
        if type(arguments) is not dict or not _is_plain(arguments, MAX_LEVELS):
            return False
        if "\\ud" in text or "\\uD" in text:  # half of a surrogate pair, or a whole one
            canonical_bytes(arguments)
    except (ValueError, RecursionError, UnreadableError):
        return False
    return True


def _are_tools_clean(tools: object, functions: set[str]) -> bool:
    """Return whether tools are sound; the names of their functions are added to `functions`."""
    if type(tools) is not list or len(tools) > MAX_TOOLS:
        return False
    for tool in tools:
        if type(tool) is not dict or tool.keys() != TOOL_KEYS:
            return False
        kind, function = tool["type"], tool["function"]
        if type(kind) is not str or kind != "function" or type(function) is not dict:
            return False
        name, parameters = function.get("name"), function.get("parameters")
        if not function.keys() <= FUNCTION_KEYS or type(function.get("description", "")) is not str:
            return False
        if type(name) is not str or not name or name in functions or type(parameters) is not dict:
            return False
        functions.add(name)
        declared = parameters.get("type", "object")
        if type(declared) is not str or declared != "object":
            return False
        if not _is_plain(parameters, MAX_LEVELS - PARAMETERS_LEVEL + 1):
            return False
    return True


def _is_metadata_clean(metadata: object) -> bool:
    if type(metadata) is not dict or not _is_plain(metadata, MAX_LEVELS - METADATA_LEVEL + 1):
        return False
    return "tools" not in metadata and not any(key.startswith(RESERVED_PREFIX) for key in metadata)


def _is_plain(value: object, levels: int) -> bool:
    """Return whether a container is JSON, at most so many levels deep, in strings that can be encoded."""
    layer: list[object] = [value]
    size = 0
    for _ in range(levels):
        below: list[object] = []
        for each in layer:
            kind = type(each)
            if kind is str:
                size += len(each)  # type: ignore[arg-type]  # a str, by its exact type
            elif kind is dict:
                for key in each:  # type: ignore[attr-defined]  # a dict, by its exact type
                    if type(key) is not str:
                        return False
                    size += len(key)
                below += each.values()  # type: ignore[attr-defined]
            elif kind is list:
                below += each  # type: ignore[arg-type]
            elif kind is int:
                if not -LARGE_INTEGER < each < LARGE_INTEGER:  # type: ignore[operator]
                    return False
            elif kind is float:
                if not isfinite(each):  # type: ignore[arg-type]
                    return False
            elif each is not None and kind is not bool:
                return False
        size += len(below)
        if size > MAX_ROW_BYTES:
            return False
        if not below:
            return True
        layer = below
    return False
