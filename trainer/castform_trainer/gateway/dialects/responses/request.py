"""Read one Responses request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from castform_trainer.gateway.dialects.responses.items import list_items, read_items
from castform_trainer.gateway.dialects.responses.store import find_item, list_history
from castform_trainer.gateway.dialects.responses.tools import read_tools
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.request import ChatRequest, make_request, parse_json_object, pick_model
from castform_trainer.gateway.sampling import read_sampling
from castform_trainer.gateway.sessions import Session

SAMPLED = ("temperature", "top_p", "top_k", "seed", "stop", "tool_choice", "top_logprobs", "logit_bias")
REFUSED = ("background", "conversation", "prompt", "moderation")
READ = frozenset(
    {
        *("model", "input", "instructions", "tools", "stream", "max_output_tokens", "previous_response_id"),
        *("store", "include", "text", "reasoning", "parallel_tool_calls", "truncation", "stream_options"),
        *(*SAMPLED, *REFUSED),
    }
)
WITHOUT_EFFECT = frozenset(
    {
        *("user", "metadata", "service_tier", "safety_identifier", "client_metadata"),
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
    }
)
LOGPROBS = "message.output_text.logprobs"
SEALED = "reasoning.encrypted_content"


def read_responses_request(data: bytes, session: Session, model: str) -> ChatRequest:
    """Check a body against what the session can do; ApiError names the first fault."""
    body = parse_json_object(data)
    spec = session.spec
    name, notes = pick_model(body.get("model"), model=model, aliases=spec.model_aliases)
    controls = {key: body.get(key) for key in SAMPLED}
    _refuse_controls(body)
    asked = read_sampling(
        {**controls, "max_completion_tokens": body.get("max_output_tokens")}, training=spec.enforce_sampling
    )
    tools, kinds, tool_notes = read_tools(body.get("tools") or [])
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise ApiError(400, "invalid_parameter", "instructions must be text", param="instructions")
    if not isinstance(body.get("reasoning") or {}, dict):
        raise ApiError(400, "invalid_parameter", "reasoning must be an object", param="reasoning")
    items = [*list_history(session, body.get("previous_response_id")), *list_items(body.get("input") or [])]
    include = body.get("include") or []
    if not isinstance(include, list):
        raise ApiError(400, "invalid_parameter", "include must be a list", param="include")
    request = make_request(
        data,
        dialect="responses",
        model=name,
        messages=read_items(
            items, instructions=instructions, find_item=lambda item_id: find_item(session, item_id)
        ),
        tools=[] if body.get("tool_choice") == "none" else tools,
        asked=asked,
        notes=(*notes, *tool_notes, *_list_notes(body)),
        stream=body.get("stream") is True,
        calls=session.calls,
        details={"body": body, "kinds": kinds, "seals": SEALED in include},
    )
    return replace(request, logprobs=LOGPROBS in include)


def _refuse_controls(body: Mapping[str, Any]) -> None:
    text = body.get("text") or {}
    asked_format = text.get("format") if isinstance(text, dict) else text
    refused = {name: body[name] for name in REFUSED if body.get(name)}
    if asked_format and asked_format != {"type": "text"}:
        refused["text.format"] = asked_format
    for name, value in refused.items():
        raise ApiError(
            400,
            "unsupported_model_control",
            f"{name}={str(value)[:60]} is not supported: the engine behind this endpoint cannot do it",
            param=name,
        )


def _list_notes(body: Mapping[str, Any]) -> list[str]:
    """Return what is accepted and not done."""
    notes = [
        f"{name}={str(body[name])[:40]}->ignored" for name in sorted(body.keys() - READ - WITHOUT_EFFECT)
    ]
    if body.get("parallel_tool_calls") is False:
        notes.append("parallel_tool_calls=False->ignored")
    if body.get("truncation") not in (None, "disabled"):
        notes.append(f"truncation={body['truncation']}->disabled")
    for name, inner in (("reasoning", "effort"), ("text", "verbosity")):
        value = body.get(name)
        if isinstance(value, dict) and value.get(inner) is not None:
            notes.append(f"{name}.{inner}={value[inner]}->ignored")
    return notes
