"""Read one chat completion request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.messages import Message, chain_digests, normalize_messages
from castform_trainer.gateway.sampling import AskedSampling, read_sampling


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRequest:
    """A checked request."""

    messages: Sequence[Message]
    """In normal form."""
    raw_messages: Sequence[Mapping[str, Any]]
    """As they were sent."""
    tools: Sequence[Mapping[str, Any]]
    digests: Sequence[bytes]
    """Of every prefix of the conversation."""
    options: Mapping[str, Any]
    """Arguments of the chat template (`chat_template_kwargs`)."""
    asked: AskedSampling
    stream: bool
    stream_usage: bool
    logprobs: bool
    parse_calls: bool
    body_digest: bytes


def parse_json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that a body holds; ApiError 400 `invalid_json` otherwise."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "invalid_json", f"the body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "invalid_json", f"the body must be a JSON object, not {type(body).__name__}")
    return body


def read_chat_request(data: bytes, *, model: str, training: bool) -> ChatRequest:
    """Check a request body against what this session can do; ApiError names the first fault."""
    body = parse_json_object(data)
    if body.get("model") not in (None, model):
        raise ApiError(
            404, "model_not_found", f"this session serves {model!r}, not {body['model']!r}", param="model"
        )
    asked = read_sampling(body, training=training)
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(_is_function(tool) for tool in tools):
        raise ApiError(
            400,
            "invalid_tools",
            "tools must be a list of {type: function, function: {name, …}}",
            param="tools",
        )
    if body.get("tool_choice") == "none":
        tools = []
    options = body.get("chat_template_kwargs") or {}
    if not isinstance(options, dict) or options.keys() & {
        "tokenize",
        "tools",
        "conversation",
        "chat_template",
    }:
        raise ApiError(
            400,
            "invalid_parameter",
            "chat_template_kwargs must be an object of template variables",
            param="chat_template_kwargs",
        )
    stream_options = body.get("stream_options") or {}
    messages = normalize_messages(body.get("messages"))
    return ChatRequest(
        messages=messages,
        raw_messages=tuple(body["messages"]),
        tools=tuple(tools),
        digests=chain_digests(messages, [tools, options]),
        options=options,
        asked=asked,
        stream=body.get("stream") is True,
        stream_usage=isinstance(stream_options, dict) and stream_options.get("include_usage") is True,
        logprobs=body.get("logprobs") is True,
        parse_calls=bool(tools),
        body_digest=hashlib.blake2b(data, digest_size=20).digest(),
    )


def _is_function(tool: Any) -> bool:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return False
    function = tool.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str) and bool(function["name"])
