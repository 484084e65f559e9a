"""A Responses answer as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from castform_trainer.gateway.chat import Answer
from castform_trainer.gateway.completion import describe_record
from castform_trainer.gateway.dialects.responses.items import seal_reasoning
from castform_trainer.gateway.dialects.responses.tools import write_call
from castform_trainer.gateway.request import ChatRequest


def make_response(answer: Answer) -> dict[str, Any]:
    """Return a `response` object that has ended, completed or cut by length."""
    call = answer.choices[0][0]
    used = call.sampling
    is_cut = call.finish_reason == "length"
    return {
        **describe_request(answer.request, response_id=f"resp_{answer.digest}", created=answer.created),
        "status": "incomplete" if is_cut else "completed",
        "completed_at": None if is_cut else answer.created,
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "temperature": used.temperature if used else None,
        "top_p": used.top_p if used else None,
        "output": list_output(answer),
        "usage": _make_usage(answer),
        "castform": describe_record([call]),
    }


def describe_request(request: ChatRequest, *, response_id: str, created: int) -> dict[str, Any]:
    """Return a `response` object in progress: what it says of its request."""
    body = request.details["body"]
    reasoning = body.get("reasoning") or {}
    return {
        "id": response_id,
        "object": "response",
        "created_at": created,
        "status": "in_progress",
        "completed_at": None,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": request.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": body.get("temperature"),
        "text": {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "truncation": "disabled",
        "usage": None,
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }


def list_output(answer: Answer) -> list[dict[str, Any]]:
    """Return a reply as output items: reasoning, the text, each call. There is always a text or a call."""
    call, logprobs = answer.choices[0]
    reply, details, key = call.reply, answer.request.details, answer.digest
    items: list[dict[str, Any]] = []
    reasoning = reply.get("reasoning_content")
    if reasoning:
        items.append(
            {
                "id": f"rs_{key}",
                "type": "reasoning",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": reasoning}],
                "encrypted_content": seal_reasoning(reasoning) if details["seals"] else None,
                "status": "completed",
            }
        )
    calls = reply.get("tool_calls") or ()
    if reply.get("content") or not calls:
        text: dict[str, Any] = {"type": "output_text", "text": reply.get("content") or "", "annotations": []}
        text["logprobs"] = logprobs["content"] if logprobs else []
        status = "incomplete" if call.finish_reason == "length" and not calls else "completed"
        items.append(
            {"id": f"msg_{key}", "type": "message", "role": "assistant", "status": status, "content": [text]}
        )
    items += [write_call(each, details["kinds"], f"{key}_{place}") for place, each in enumerate(calls)]
    return items


def _make_usage(answer: Answer) -> dict[str, Any]:
    call = answer.choices[0][0]
    prompt, completion = call.prompt_tokens or 0, call.completion_tokens or 0
    input_details: Mapping[str, int] = {"cached_tokens": 0, "cache_write_tokens": 0}
    return {
        "input_tokens": prompt,
        "input_tokens_details": input_details,
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + completion,
    }
