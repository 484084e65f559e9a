"""The two shapes of a chat completion answer: one JSON object, or server-sent chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from castform.calls import ModelCall

PIECE = 48  # characters of one streamed delta

Choice = tuple[ModelCall, Mapping[str, Any] | None]
"""A record and the `logprobs` field of its choice."""


def make_completion(
    choices: Sequence[Choice], *, completion_id: str, model: str, created: int
) -> dict[str, Any]:
    """Return a `chat.completion` object."""
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [
            {
                "index": call.choice,
                "message": dict(call.reply),
                "logprobs": logprobs,
                "finish_reason": call.finish_reason,
            }
            for call, logprobs in choices
        ],
        "usage": make_usage([call for call, _ in choices]),
        "castform": describe_record([call for call, _ in choices]),
    }


def make_chunks(
    choices: Sequence[Choice], *, completion_id: str, model: str, created: int, usage: bool
) -> Iterator[bytes]:
    """Yield the server-sent events of a `chat.completion.chunk` stream, `[DONE]` last."""
    head = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
    for call, logprobs in choices:
        for delta in list_deltas(call.reply):
            choice = {"index": call.choice, "delta": delta, "finish_reason": None, "logprobs": logprobs}
            yield _event({**head, "choices": [choice]})
            logprobs = None
        last = {
            "index": call.choice,
            "delta": {},
            "finish_reason": call.finish_reason,
            "logprobs": logprobs,
        }
        yield _event({**head, "choices": [last], "castform": describe_record([call])})
    if usage:
        yield _event({**head, "choices": [], "usage": make_usage([call for call, _ in choices])})
    yield b"data: [DONE]\n\n"


def list_deltas(reply: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message as deltas: role, reasoning, content, then each tool call in pieces."""
    yield {"role": "assistant", "content": "" if reply.get("content") is not None else None}
    for field in ("reasoning_content", "content"):
        for piece in cut(reply.get(field) or ""):
            yield {field: piece}
    for place, call in enumerate(reply.get("tool_calls") or ()):
        function = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": place, "id": call["id"], "type": "function", "function": function}]}
        for piece in cut(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}


def merge_stream(chunks: Iterable[Mapping[str, Any]], *, choice: int = 0) -> dict[str, Any]:
    """Return the assistant message that streamed chunks spell: the inverse of `make_chunks`.

    Tool-call entries are merged by their `index`, also inside one chunk; an id or a name counts
    once, arguments are appended.
    """
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for part in chunk.get("choices") or ():
            if part.get("index", 0) != choice:
                continue
            delta = part.get("delta") or {}
            for field in ("content", "reasoning_content"):
                if delta.get(field) is not None:
                    message[field] = (message.get(field) or "") + delta[field]
            for entry in delta.get("tool_calls") or ():
                _merge_call(calls, entry)
    if calls:
        message["tool_calls"] = [calls[place] for place in sorted(calls)]
    return message


def make_usage(calls: Sequence[ModelCall]) -> dict[str, int]:
    """Return token counts of one request: its prompt once, all its replies."""
    prompt = calls[0].prompt_tokens or 0
    completion = sum(call.completion_tokens or 0 for call in calls)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def describe_record(calls: Sequence[ModelCall]) -> dict[str, Any]:
    """Return what a curious client may know about the record."""
    first = calls[0]
    return {"version": first.version, "splice": first.splice, "overrides": list(first.overrides)}


def _merge_call(calls: dict[int, dict[str, Any]], entry: Mapping[str, Any]) -> None:
    call = calls.setdefault(
        entry.get("index", 0), {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
    )
    call["id"] = call["id"] or entry.get("id") or ""
    function = entry.get("function") or {}
    call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
    call["function"]["arguments"] += function.get("arguments") or ""


def cut(text: str) -> Iterator[str]:
    """Yield a text in the pieces that are streamed."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
