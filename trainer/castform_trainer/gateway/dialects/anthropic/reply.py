"""The two shapes of a Messages answer: one JSON object, or named server-sent events."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from castform.calls import ModelCall
from castform_trainer.gateway.chat import Answer
from castform_trainer.gateway.completion import cut, describe_record
from castform_trainer.gateway.dialects.contract import write_event

STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def make_message(answer: Answer) -> dict[str, Any]:
    """Return a `message` object."""
    call = answer.choices[0][0]
    blocks = list_blocks(call, shows_thinking=answer.request.details["shows_thinking"])
    return {
        **_make_head(answer),
        "content": blocks,
        **_make_stop(answer),
        "usage": _make_usage(call, call.completion_tokens),
        "castform": describe_record([call]),
    }


def make_events(answer: Answer, beats: int) -> Iterator[bytes]:
    """Yield the events of a stream, `message_start` to `message_stop`."""
    call = answer.choices[0][0]
    start = {**_make_head(answer), "content": [], "stop_reason": None, "stop_sequence": None}
    yield write_event({"type": "message_start", "message": {**start, "usage": _make_usage(call, 0)}})
    yield PING
    for index, block in enumerate(list_blocks(call, shows_thinking=answer.request.details["shows_thinking"])):
        yield write_event({"type": "content_block_start", "index": index, "content_block": _empty(block)})
        for delta in _list_deltas(block):
            yield write_event({"type": "content_block_delta", "index": index, "delta": delta})
        yield write_event({"type": "content_block_stop", "index": index})
    yield write_event(
        {
            "type": "message_delta",
            "delta": _make_stop(answer),
            "usage": _make_usage(call, call.completion_tokens),
            "castform": describe_record([call]),
        }
    )
    yield write_event({"type": "message_stop"})


def list_blocks(call: ModelCall, *, shows_thinking: bool) -> list[dict[str, Any]]:
    """Return a reply as content blocks. Thinking that was not asked for is left out; the gateway knows it."""
    reply = call.reply
    blocks: list[dict[str, Any]] = []
    thinking = reply.get("reasoning_content")
    if thinking and shows_thinking:
        blocks.append({"type": "thinking", "thinking": thinking, "signature": _sign(call)})
    if reply.get("content"):
        blocks.append({"type": "text", "text": reply["content"]})
    for each in reply.get("tool_calls") or ():
        function = each["function"]
        arguments = json.loads(function["arguments"])
        blocks.append({"type": "tool_use", "id": each["id"], "name": function["name"], "input": arguments})
    return blocks


def _sign(call: ModelCall) -> str:
    """Return what stands for a signature: clients want one and send it back."""
    return base64.b64encode(call.call_id.encode()).decode()


def _make_head(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.digest}",
        "type": "message",
        "role": "assistant",
        "model": answer.request.model,
    }


def _make_stop(answer: Answer) -> dict[str, Any]:
    finish, stop = answer.choices[0][0].finish_reason, answer.stop_texts[0]
    if stop is not None and finish == "stop":
        return {"stop_reason": "stop_sequence", "stop_sequence": stop}
    return {"stop_reason": STOP_REASONS.get(finish, "end_turn"), "stop_sequence": None}


def _make_usage(call: ModelCall, output_tokens: int | None) -> dict[str, Any]:
    return {
        "input_tokens": call.prompt_tokens or 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens or 0,
    }


def _empty(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block as it is before its deltas."""
    empty = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {key: empty.get(key, value) for key, value in block.items()}


def _list_deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        for piece in cut(block["text"]):
            yield {"type": "text_delta", "text": piece}
    elif block["type"] == "thinking":
        for piece in cut(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        for piece in cut(json.dumps(block["input"], ensure_ascii=False)):
            yield {"type": "input_json_delta", "partial_json": piece}
