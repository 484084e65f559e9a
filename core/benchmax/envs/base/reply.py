"""Take a chat completion apart: the assistant message to keep, and why it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmax.envs.shared_types import Message, RolloutFailure

KEPT_FIELDS = ("reasoning_content", "reasoning", "refusal")
"""Besides role, content and calls: what else the model said. Sent back as it came."""


class Reply(NamedTuple):
    """One turn of the model."""

    message: Message
    tool_calls: list[dict[str, Any]]
    finish_reason: str | None


def read_reply(body: Mapping[str, Any], *, turn: int) -> Reply:
    """Return the first choice of a completion. RolloutFailure `model_error` when there is none to use.

    Tool calls are kept in OpenAI's own form whatever else a server adds: an id is made up
    where it gave none, and arguments are always text.
    """
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        raise RolloutFailure("model_error", "the reply has no choices")
    choice = choices[0]
    said = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(said, Mapping):
        raise RolloutFailure("model_error", "the reply has no message")
    message: Message = {"role": "assistant", "content": said.get("content")}
    message |= {name: said[name] for name in KEPT_FIELDS if said.get(name) is not None}
    calls = [
        _kept_call(call, turn=turn, index=index) for index, call in enumerate(said.get("tool_calls") or ())
    ]
    if calls:
        message["tool_calls"] = calls
    finish_reason = choice.get("finish_reason")
    return Reply(
        message, calls, finish_reason if isinstance(finish_reason, str) and finish_reason.strip() else None
    )


def _kept_call(call: object, *, turn: int, index: int) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise RolloutFailure("model_error", f"tool call {index} of the reply is not an object")
    call_id = call.get("id") or f"call_{turn}_{index}"
    function = call.get("function")
    if call.get("type", "function") not in ("function", None) or not isinstance(function, Mapping):
        return {**call, "id": call_id}
    return {
        "id": call_id,
        "type": "function",
        "function": {
            "name": str(function.get("name")),
            "arguments": _argument_text(function.get("arguments")),
        },
    }


def _argument_text(arguments: object) -> str:
    if arguments is None:
        return "{}"
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
