"""What a scripted model may say, and the OpenAI bodies that say it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
    cut_after_bytes: int | None = None
    """Drop the connection after so many bytes of the body (of the event stream, when streaming)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """An HTTP error instead of a reply."""

    status: int = 500
    message: str = "scripted fault"
    code: str | None = None
    """OpenAI error code, `context_budget_exceeded` for one."""
    retry_after_seconds: float | None = None
    latency_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptedRequest:
    """One request as the script sees it."""

    session_id: str
    index: int
    """Position in its session, from 0."""
    choice: int
    """Which of the `n` replies is asked for."""
    body: Mapping[str, Any]
    """The decoded request."""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The chat so far."""
        messages: Sequence[Mapping[str, Any]] = self.body["messages"]
        return messages


Answer = str | Reply | Fault | Mapping[str, Any]
"""Text, a reply, a fault, or an assistant message in OpenAI's form."""
Script = Callable[[ScriptedRequest], Answer]


def make_reply(answer: Answer) -> Reply | Fault:
    """Return an answer in its full form. TypeError for anything a script may not return."""
    if isinstance(answer, (Reply, Fault)):
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
    raise TypeError(f"a script returns text, a Reply, a Fault or a message, not {type(answer).__name__}")


def make_message(reply: Reply, call_id: str) -> dict[str, Any]:
    """Return the assistant message that a reply stands for."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.call_id or f"call_{call_id}_{i}",
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments
                    if isinstance(call.arguments, str)
                    else json.dumps(call.arguments),
                },
            }
            for i, call in enumerate(reply.tool_calls)
        ]
    return message


def finish_reason(reply: Reply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def count_words(messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the words in messages and in what they call: a script's stand-in for tokens."""
    texts = [message.get("content") or "" for message in messages]
    texts += [
        f"{call['function']['name']} {call['function']['arguments']}"
        for message in messages
        for call in message.get("tool_calls") or ()
    ]
    return sum(len((text if isinstance(text, str) else json.dumps(text)).split()) for text in texts)


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
        deltas += [{"content": content[i : i + 16]} for i in range(0, len(content), 16)]
        deltas += [
            {"tool_calls": [{"index": i, **call}]} for i, call in enumerate(message.get("tool_calls") or ())
        ]
        for delta in deltas:
            yield event([{"index": place, "delta": delta, "finish_reason": None}])
        yield event([{"index": place, "delta": {}, "finish_reason": choice["finish_reason"]}])
    if usage is not None:
        yield event([], usage=dict(usage))
    yield b"data: [DONE]\n\n"
