"""Read one Messages request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from castform_trainer.gateway.dialects.anthropic.blocks import read_conversation
from castform_trainer.gateway.dialects.anthropic.tools import read_tools
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.request import ChatRequest, make_request, parse_json_object, pick_model
from castform_trainer.gateway.sampling import read_sampling
from castform_trainer.gateway.sessions import Session

SAMPLED = ("max_tokens", "temperature", "top_p", "top_k")
REFUSED = ("output_format", "mcp_servers", "container")
READ = frozenset(
    {
        *("model", "messages", "system", "tools", "tool_choice", "stream", "stop_sequences", "thinking"),
        *("output_config", *SAMPLED, *REFUSED),
    }
)
WITHOUT_EFFECT = frozenset({"metadata", "service_tier", "cache_control", "betas", "speed", "inference_geo"})


def read_messages_request(data: bytes, session: Session, model: str) -> ChatRequest:
    """Check a body against what the session can do; ApiError names the first fault."""
    body = parse_json_object(data)
    if body.get("max_tokens") is None:
        raise ApiError(400, "invalid_parameter", "max_tokens: Field required", param="max_tokens")
    return _read(data, body, session, model)


def read_count_request(data: bytes, session: Session, model: str) -> ChatRequest:
    """Check a request to count tokens: the same body, but nothing is sampled."""
    return _read(data, parse_json_object(data), session, model)


def _read(data: bytes, body: Mapping[str, Any], session: Session, model: str) -> ChatRequest:
    spec = session.spec
    name, notes = pick_model(body.get("model"), model=model, aliases=spec.model_aliases)
    asked = read_sampling(_list_controls(body), training=spec.enforce_sampling)
    tools, tool_notes = read_tools(body.get("tools") or [])
    choice = body.get("tool_choice") or {}
    wants_none = choice.get("type") == "none"
    thinking = body.get("thinking") or {}
    if not isinstance(thinking, dict):
        raise ApiError(400, "invalid_parameter", "thinking: must be an object", param="thinking")
    return make_request(
        data,
        dialect="anthropic",
        model=name,
        messages=read_conversation(body),
        tools=[] if wants_none else tools,
        asked=asked,
        notes=(*notes, *tool_notes, *_list_notes(body, choice, thinking)),
        stream=body.get("stream") is True,
        calls=session.calls,
        details={"shows_thinking": thinking.get("type") in ("enabled", "adaptive")},
    )


def _list_controls(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters under the names that the sampling contract knows; ApiError for refused ones."""
    stops = body.get("stop_sequences") or []
    choice = body.get("tool_choice") or {}
    if not isinstance(choice, dict) or not isinstance(choice.get("type", "auto"), str):
        raise ApiError(
            400, "invalid_parameter", "tool_choice: must be an object with a type", param="tool_choice"
        )
    output = body.get("output_config") or {}
    asked_format = output.get("format") if isinstance(output, dict) else output
    refused = {name: body[name] for name in REFUSED if body.get(name)}
    if asked_format:
        refused["output_config.format"] = asked_format
    for name in refused:
        raise ApiError(
            400,
            "unsupported_model_control",
            f"{name}: not supported, the engine behind this endpoint cannot do it",
            param=name,
        )
    return {
        **{name: body.get(name) for name in SAMPLED},
        "stop": stops,
        "tool_choice": choice.get("type", "auto"),
    }


def _list_notes(body: Mapping[str, Any], choice: Mapping[str, Any], thinking: Mapping[str, Any]) -> list[str]:
    """Return what is accepted and not done."""
    notes = [
        f"{name}={str(body[name])[:40]}->ignored" for name in sorted(body.keys() - READ - WITHOUT_EFFECT)
    ]
    if choice.get("disable_parallel_tool_use") is True:
        notes.append("tool_choice.disable_parallel_tool_use=True->ignored")
    if thinking.get("budget_tokens") is not None:
        notes.append(f"thinking.budget_tokens={thinking['budget_tokens']}->ignored")
    output = body.get("output_config")
    if isinstance(output, dict):
        notes += [
            f"output_config.{key}={str(output[key])[:40]}->ignored"
            for key in sorted(output)
            if key != "format"
        ]
    return notes
