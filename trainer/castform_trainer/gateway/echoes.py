"""Tool calls that a client sends back in other words than it got them in.

Clients read arguments, fill in the defaults of the tool's schema, and write them anew with numbers
and keys in their own way. By its id such a call is known to be the one that was served, so what the
model wrote is put back, and the recorded ids can be reused. Arguments that mean something else stay
as they came: they are new context.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from castform.calls import ModelCall
from castform_trainer.gateway.messages import Message, parse_arguments

Function = Mapping[str, Any]


def restore_calls(
    messages: Sequence[Message], calls: Iterable[ModelCall], tools: Sequence[Mapping[str, Any]]
) -> list[Message]:
    """Return messages in normal form, with the served arguments in calls that say the same."""
    if not any(message.get("tool_calls") for message in messages):
        return list(messages)
    served = {each["id"]: each["function"] for call in calls for each in call.reply.get("tool_calls") or ()}
    defaults = {tool["function"]["name"]: _list_defaults(tool["function"]) for tool in tools}
    return [
        {**message, "tool_calls": [_restore(call, served, defaults) for call in message["tool_calls"]]}
        if message.get("tool_calls")
        else message
        for message in messages
    ]


def _restore(
    call: Message, served: Mapping[str, Function], defaults: Mapping[str, Mapping[str, Any]]
) -> Message:
    function = served.get(call["id"])
    echoed = call["function"]
    if function is None or function["name"] != echoed["name"]:
        return call
    own = parse_arguments(function["arguments"])
    if not isinstance(own, dict) or not isinstance(echoed["arguments"], dict):
        return call
    known = defaults.get(echoed["name"], {})
    try:
        if repr(own) == repr(echoed["arguments"]):  # the usual case, told at little cost
            return call
        is_same = _canonical(own, known) == _canonical(echoed["arguments"], known)
    except RecursionError:
        return call
    if not is_same:
        return call
    return {**call, "function": {**echoed, "arguments": own}}


def _canonical(arguments: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    filled = {**defaults, **arguments}
    return json.dumps(_plain(filled), sort_keys=True)


def _plain(value: Any) -> Any:
    """Return JSON with every number that has no fraction as an integer, as JavaScript writes it."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _list_defaults(function: Function) -> dict[str, Any]:
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(properties, dict):
        return {}
    schemas = {name: schema for name, schema in properties.items() if isinstance(schema, dict)}
    return {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
