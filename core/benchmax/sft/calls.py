"""The tool calls of one assistant message."""

from __future__ import annotations

from collections.abc import Iterator

from benchmax.sft.issues import Fault
from benchmax.sft.keys import key_faults
from benchmax.sft.parsing import UnreadableError, parse_text
from benchmax.sft.tree import tree_faults
from benchmax.sft.wording import named, shown

CALL_KEYS = ("id", "type", "function")
FUNCTION_KEYS = ("name", "arguments")


def call_faults(call: object, location: str, functions: frozenset[str], seen: set[str]) -> Iterator[Fault]:
    """Yield what is wrong with a call, apart from its result.

    `functions` are the names that the row defines, none when it defines no tools. `seen` are the
    ids of the calls before this one in the row; its own is added.
    """
    if not isinstance(call, dict) or type(call) is not dict:
        yield Fault("call_not_object", location, f"a tool call is an object, not {shown(call)}")
        return
    yield from key_faults(call, CALL_KEYS, location, what="a tool call")
    kind, name = call.get("type"), call.get("id")
    if type(kind) is not str or kind != "function":
        found = shown(kind) if "type" in call else "missing"
        yield Fault(
            "call_type", f"{location}.type", f'the type of a tool call is "function", here it is {found}'
        )
    if not isinstance(name, str) or type(name) is not str or not name:
        yield Fault("call_id_empty", f"{location}.id", "a tool call has a non-empty string as its id")
    elif name in seen:
        yield Fault(
            "call_id_duplicate", f"{location}.id", f"a call before this one has the id {shown(name)} too"
        )
    else:
        seen.add(name)
    yield from _function_faults(call, f"{location}.function", functions)


def call_ids(calls: list[object]) -> list[str]:
    """Return the ids that results can name, in the order of the calls."""
    names = [call.get("id") for call in calls if type(call) is dict]
    return [name for name in names if type(name) is str and name]


def _function_faults(call: dict[object, object], location: str, functions: frozenset[str]) -> Iterator[Fault]:
    if "function" not in call:
        yield Fault("call_function_missing", location, "a tool call has a function with name and arguments")
        return
    function = call["function"]
    if not isinstance(function, dict) or type(function) is not dict:
        yield Fault(
            "call_function_not_object",
            location,
            f"the function of a call is an object, not {shown(function)}",
        )
        return
    yield from key_faults(function, FUNCTION_KEYS, location, what="the function of a call")
    name = function.get("name")
    if not isinstance(name, str) or type(name) is not str or not name:
        yield Fault(
            "call_name_empty", f"{location}.name", "a call names a function; the name is a non-empty string"
        )
    elif functions and name not in functions:
        text = f"{shown(name)} is not among the row's tools: {named(sorted(functions))}"
        yield Fault("call_undefined_function", f"{location}.name", text)
    which = f"{shown(name)} in the call {shown(call.get('id'))}"
    yield from _arguments_faults(function, f"{location}.arguments", which)


def _arguments_faults(function: dict[object, object], location: str, which: str) -> Iterator[Fault]:
    text = function.get("arguments")
    if not isinstance(text, str) or type(text) is not str:
        found = shown(text) if "arguments" in function else "missing"
        message = f"the arguments of {which} are {found}; they are a string of JSON, such as '{{}}'"
        yield Fault("arguments_not_string", location, message)
        return
    try:
        arguments = parse_text(text)
    except UnreadableError as fault:
        code = "too_deep" if fault.code == "too_deep" else "arguments_invalid_json"
        yield Fault(code, location, f"the arguments of {which}: {fault.message}")
        return
    if type(arguments) is not dict:
        twice = "; it was encoded twice" if type(arguments) is str and arguments.lstrip()[:1] == "{" else ""
        message = f"the arguments of {which} decode to {shown(arguments)}, not to an object{twice}"
        yield Fault("arguments_not_object", location, message)
    for fault_in_tree in tree_faults(arguments, location):
        yield fault_in_tree._replace(message=f"the arguments of {which}: {fault_in_tree.message}")
