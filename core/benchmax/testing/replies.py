"""What a scripted model may say, and the OpenAI bodies that say it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STREAM_PIECE_CHARACTERS = 16

# Any: bodies, messages and arguments are JSON.


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolUse:
    """One tool call of a scripted reply."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    """A mapping is sent as JSON; a string is sent as it is, broken or not."""
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One assistant message, and how it is delivered."""

    content: str | None = None
    tool_calls: Sequence[ToolUse] = ()
    reasoning: str | None = None
    finish_reason: str | None = None
    """Unset: tool_calls when there are calls, else stop. `length` is a reply that was cut off."""
    latency_seconds: float = 0.0
    """Wait before the first byte."""
    piece_seconds: float = 0.0
    """Wait between the pieces of the body: the events of a stream, 64 bytes of anything else."""
    cut_after_bytes: int | None = None
    """Drop the connection after so many bytes of the body (of the event stream, when streaming)."""
    verbatim: Mapping[str, Any] | None = None
    """The whole message, sent as it is in place of the fields above, however odd. A `finish_reason`
    in it, null too, is the choice's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """An HTTP error instead of a reply."""

    status: int = 500
    message: str = "scripted fault"
    code: str | None = None
    """OpenAI error code, `context_budget_exceeded` for one."""
    param: str | None = None
    """The request field that is at fault."""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after_seconds: float | None = None
    latency_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RawReply:
    """Exactly this body, which need not be JSON."""

    body: bytes
    status: int = 200
    latency_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptedRequest:
    """One request as the script sees it."""

    body: Mapping[str, Any]
    """The decoded request."""
    session_id: str = ""
    index: int = 0
    """Position in its session, from 0."""
    choice: int = 0
    """Which of the `n` replies is asked for."""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names in any case. The key is among them."""
    client_port: int = 0
    """Tells connections apart."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The chat so far."""
        messages: Sequence[Mapping[str, Any]] = self.body["messages"]
        return messages


Answer = str | Reply | Fault | RawReply | Mapping[str, Any]
"""Text, a reply, a fault, a body, or an assistant message in OpenAI's form."""
Script = Callable[[ScriptedRequest], Answer]


def make_reply(answer: Answer) -> Reply | Fault | RawReply:
    """Return an answer in its full form. TypeError for anything a script may not return."""
    if isinstance(answer, (Reply, Fault, RawReply)):
        return answer
    if isinstance(answer, str):
        return Reply(content=answer)
    if isinstance(answer, Mapping):
        return Reply(
            content=answer.get("content"),
            reasoning=answer.get("reasoning_content"),
            tool_calls=[
                ToolUse(
                    name=call["function"]["name"],
                    arguments=call["function"]["arguments"],
                    call_id=call.get("id"),
                )
                for call in answer.get("tool_calls") or ()
            ],
        )
    raise TypeError(
        f"a script returns text, a Reply, a Fault, a RawReply or a message, not {type(answer).__name__}"
    )


def make_message(reply: Reply, call_id: str) -> dict[str, Any]:
    """Return the assistant message that a reply stands for."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.verbatim is not None:
        return {**message, **copy.deepcopy(dict(reply.verbatim))}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            function_call(call.call_id or f"call_{call_id}_{place}", call.name, call.arguments)
            for place, call in enumerate(reply.tool_calls)
        ]
    return message


def make_choices(replies: Sequence[Reply], call_id: str) -> list[dict[str, Any]]:
    """Return the choices of a completion, one a reply."""
    choices = []
    for place, reply in enumerate(replies):
        message = make_message(reply, f"{call_id}.{place}")
        inferred = reply.finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")
        finish_reason = message.pop("finish_reason", inferred)
        choices.append({"index": place, "message": message, "finish_reason": finish_reason})
    return choices


def function_call(
    call_id: str, name: str, arguments: Mapping[str, Any] | str | None = None
) -> dict[str, Any]:
    """Return a tool call as a model makes it; a mapping becomes JSON text, text stays as it is."""
    text = json.dumps(arguments or {}) if not isinstance(arguments, str) else arguments
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def stream_chunks(
    head: Mapping[str, Any], choices: Sequence[Mapping[str, Any]], usage: Mapping[str, Any] | None
) -> Iterator[bytes]:
    """Yield the server-sent events of a completion: role, text in pieces, tool calls, finish, usage."""

    def event(choices: list[dict[str, Any]], **extra: Any) -> bytes:
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **extra}
        return f"data: {json.dumps(chunk)}\n\n".encode()

    for choice in choices:
        place, message = choice["index"], choice["message"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if message.get("reasoning_content"):
            deltas.append({"reasoning_content": message["reasoning_content"]})
        content = message["content"] or ""
        size = STREAM_PIECE_CHARACTERS
        deltas += [{"content": content[i : i + size]} for i in range(0, len(content), size)]
        deltas += [
            {"tool_calls": [{"index": i, **call}]} for i, call in enumerate(message.get("tool_calls") or ())
        ]
        for delta in deltas:
            yield event([{"index": place, "delta": delta, "finish_reason": None}])
        yield event([{"index": place, "delta": {}, "finish_reason": choice["finish_reason"]}])
    if usage is not None:
        yield event([], usage=dict(usage))
    yield b"data: [DONE]\n\n"
