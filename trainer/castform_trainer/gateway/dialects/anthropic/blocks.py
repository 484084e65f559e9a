"""Anthropic messages and their content blocks, as chat messages.

Not part of the conversation, and so left out: cache marks, signatures, redacted thinking and the
line with which some clients bill their requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from castform_trainer.gateway.dialects.runs import GAP, merge_runs
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.messages import Message

BILLING_LINE = "x-anthropic-billing-header:"
ERROR_LEAD = "Error: "
"""In front of the text of a tool result that is marked as an error and does not say so itself."""


def read_conversation(body: Mapping[str, Any]) -> list[Message]:
    """Return system text and messages of a request in chat form; ApiError 400 names what is wrong."""
    system = GAP.join(_list_texts(body.get("system") or [], "system"))
    found: list[Message] = [{"role": "system", "content": system}] if system else []
    turns = body.get("messages")
    if not isinstance(turns, list) or not turns:
        raise _bad("messages: a non-empty list is required", "messages")
    for place, turn in enumerate(turns):
        where = f"messages.{place}"
        role = turn.get("role") if isinstance(turn, dict) else None
        if role not in ("user", "assistant", "system"):
            raise _bad(f"{where}.role: must be user, assistant or system, not {role!r}", f"{where}.role")
        blocks = _list_blocks(turn.get("content"), f"{where}.content")
        found += _read_reply(blocks, where) if role == "assistant" else _read_turn(role, blocks, where)
    merged = merge_runs(found)
    if merged[-1]["role"] == "assistant":
        raise _bad(
            "messages: the last one must be a user's; a reply that has begun is not continued", "messages"
        )
    return merged


def _read_turn(role: str, blocks: Sequence[Mapping[str, Any]], where: str) -> Iterator[Message]:
    """Yield the tool results of a user's turn, then its text."""
    texts = []
    for place, block in enumerate(blocks):
        spot = f"{where}.content.{place}"
        if block.get("type") == "tool_result" and role == "user":
            yield _read_result(block, spot)
        elif block.get("type") == "document":
            texts.append(_read_document(block, spot))
        else:
            texts.append(_read_text(block, spot))
    text = GAP.join(filter(None, texts))
    if text or not any(block.get("type") == "tool_result" for block in blocks):
        yield {"role": role, "content": text}


def _read_reply(blocks: Sequence[Mapping[str, Any]], where: str) -> Iterator[Message]:
    reply: Message = {"role": "assistant", "content": ""}
    calls = []
    for place, block in enumerate(blocks):
        spot = f"{where}.content.{place}"
        kind = block.get("type")
        if kind == "tool_use":
            calls.append(_read_call(block, spot))
        elif kind == "thinking":
            if isinstance(block.get("thinking"), str) and block["thinking"]:
                reply["reasoning_content"] = reply.get("reasoning_content", "") + block["thinking"]
        elif kind != "redacted_thinking":
            reply["content"] += _read_text(block, spot)
    if calls:
        reply["tool_calls"] = calls
    yield reply


def _read_call(block: Mapping[str, Any], where: str) -> Message:
    if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
        raise _bad(f"{where}: tool_use needs an id and a name", where)
    if not isinstance(block.get("input"), dict):
        raise _bad(f"{where}.input: must be an object", f"{where}.input")
    arguments = json.dumps(block["input"], ensure_ascii=False)
    return {
        "id": block["id"],
        "type": "function",
        "function": {"name": block["name"], "arguments": arguments},
    }


def _read_result(block: Mapping[str, Any], where: str) -> Message:
    if not isinstance(block.get("tool_use_id"), str):
        raise _bad(f"{where}.tool_use_id: must be a string", f"{where}.tool_use_id")
    text = GAP.join(_list_texts(block.get("content") or [], f"{where}.content"))
    if block.get("is_error") is True and "error" not in text[:40].lower():
        text = ERROR_LEAD + text
    return {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}


def _list_texts(content: Any, where: str) -> list[str]:
    blocks = _list_blocks(content, where)
    texts = [_read_text(block, f"{where}.{place}") for place, block in enumerate(blocks)]
    if where == "system":
        texts = [text.partition("\n")[2] if text.startswith(BILLING_LINE) else text for text in texts]
    return list(filter(None, texts))


def _list_blocks(content: Any, where: str) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise _bad(f"{where}: must be a string or a list of content blocks", where)
    return content


def _read_text(block: Mapping[str, Any], where: str) -> str:
    if block.get("type") != "text":
        raise _refuse(block, where)
    if not isinstance(block.get("text"), str):
        raise _bad(f"{where}.text: must be a string", f"{where}.text")
    return str(block["text"])


def _read_document(block: Mapping[str, Any], where: str) -> str:
    source = block.get("source")
    if (
        not isinstance(source, dict)
        or source.get("type") != "text"
        or not isinstance(source.get("data"), str)
    ):
        raise _refuse(block, where)
    title = block.get("title")
    return f"{title}{GAP}{source['data']}" if isinstance(title, str) and title else source["data"]


def _refuse(block: Mapping[str, Any], where: str) -> ApiError:
    return ApiError(
        400,
        "unsupported_content",
        f"{where}: content of type {block.get('type')!r} is not supported here; this model reads text only",
        param=where,
    )


def _bad(message: str, where: str) -> ApiError:
    return ApiError(400, "invalid_messages", message, param=where)
