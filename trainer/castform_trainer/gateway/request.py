"""What any client asks for, in one form, and how it is read from a chat completion request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from castform.calls import ModelCall
from castform_trainer.gateway.echoes import restore_calls
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.messages import Message, chain_digests, normalize_messages
from castform_trainer.gateway.sampling import AskedSampling, read_sampling
from castform_trainer.gateway.strict_json import parse_json


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatRequest:
    """A checked request, whichever dialect it came in."""

    messages: Sequence[Message]
    """In normal form."""
    raw_messages: Sequence[Mapping[str, Any]]
    """In chat form, as they were sent."""
    tools: Sequence[Mapping[str, Any]]
    digests: Sequence[bytes]
    """Of every prefix of the conversation."""
    options: Mapping[str, Any]
    """Arguments of the chat template (`chat_template_kwargs`)."""
    asked: AskedSampling
    stream: bool
    stream_usage: bool
    logprobs: bool
    body_digest: bytes
    dialect: str = "chat"
    model: str
    """The name that the client used; the answer carries it."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the reply of this dialect has to know about the request."""


def parse_json_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that a body holds; ApiError 400 `invalid_json` otherwise."""
    try:
        body = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "invalid_json", f"the body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "invalid_json", f"the body must be a JSON object, not {type(body).__name__}")
    return body


def read_chat_request(
    data: bytes,
    *,
    model: str,
    training: bool,
    aliases: Sequence[str] = (),
    calls: Iterable[ModelCall] = (),
) -> ChatRequest:
    """Check a request body against what this session can do; ApiError names the first fault.

    `calls` are the session's earlier ones, whose tool calls the client sends back.
    """
    body = parse_json_object(data)
    asked_model, notes = pick_model(body.get("model"), model=model, aliases=aliases)
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
    request = make_request(
        data,
        dialect="chat",
        model=asked_model,
        messages=body.get("messages"),
        tools=tools,
        options=options,
        asked=asked,
        notes=notes,
        stream=body.get("stream") is True,
        calls=calls,
    )
    return replace(
        request,
        stream_usage=isinstance(stream_options, dict) and stream_options.get("include_usage") is True,
        logprobs=body.get("logprobs") is True,
    )


def make_request(
    data: bytes,
    *,
    dialect: str,
    model: str,
    messages: Any,
    tools: Sequence[Mapping[str, Any]],
    asked: AskedSampling,
    notes: Sequence[str],
    stream: bool,
    calls: Iterable[ModelCall],
    options: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
) -> ChatRequest:
    """Return a request out of messages and tools in chat form.

    `data` is the body as it came, `notes` what the record says was not done as asked.
    ApiError 400 names the first message that is wrong.
    """
    normal = restore_calls(normalize_messages(messages), calls, tools)
    return ChatRequest(
        dialect=dialect,
        model=model,
        messages=normal,
        raw_messages=tuple(messages),
        tools=tuple(tools),
        digests=chain_digests(normal, [list(tools), dict(options or {})]),
        options=options or {},
        asked=replace(asked, ignored=(*notes, *asked.ignored)),
        stream=stream,
        stream_usage=False,
        logprobs=False,
        body_digest=hashlib.blake2b(dialect.encode() + data, digest_size=20).digest(),
        details=details or {},
    )


def pick_model(asked: Any, *, model: str, aliases: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the name to answer with and what the record says of it; ApiError 404 for one not served.

    A session has one model. Names that match one of `aliases` (shell patterns) are served by it too.
    """
    if asked is None or asked == model:
        return model, ()
    if not isinstance(asked, str) or not any(fnmatchcase(asked, alias) for alias in aliases):
        raise ApiError(404, "model_not_found", f"this session serves {model!r}, not {asked!r}", param="model")
    return asked, (f"model={asked}->{model}",)


def _is_function(tool: Any) -> bool:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return False
    function = tool.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str) and bool(function["name"])
