"""Chat messages in one form: what templates read, and what two requests are compared by.

The normal form has string content, parsed tool arguments and no empty fields, so that an
echo which differs only in spelling (null or "", key order of arguments, text parts) is equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.strict_json import parse_json

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
Message = dict[str, Any]


def normalize_messages(raw: Any) -> list[Message]:
    """Return request messages in normal form; ApiError 400 names the first one that is wrong."""
    if not isinstance(raw, list) or not raw:
        raise _bad("messages must be a non-empty list", "messages")
    return [_normalize(message, f"messages[{place}]") for place, message in enumerate(raw)]


def chain_digests(messages: Sequence[Message], context: Any) -> list[bytes]:
    """Digest every prefix of a conversation: entry i covers `context` and messages[:i].

    `context` is whatever else changes the rendering (tools, template arguments).
    ApiError 400 for text that is not valid Unicode.
    """
    digests = [_digest(b"", {"context": context})]
    for message in messages:
        digests.append(extend_digest(digests[-1], message))
    return digests


def extend_digest(digest: bytes, message: Mapping[str, Any]) -> bytes:
    """Return the digest of a conversation with one more message.

    Reasoning is left out: most clients drop it from the history and the gateway puts it back.
    """
    return _digest(digest, {key: message[key] for key in message if key != "reasoning_content"})


def _digest(previous: bytes, value: Mapping[str, Any]) -> bytes:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    try:
        return hashlib.blake2b(previous + text.encode(), digest_size=20).digest()
    except UnicodeEncodeError as error:
        raise ApiError(
            400, "invalid_text", f"the request holds text that is not valid Unicode: {error.reason}"
        ) from error


def _normalize(raw: Any, where: str) -> Message:
    if not isinstance(raw, dict):
        raise _bad(f"{where} must be an object", where)
    role = ROLES.get(raw["role"]) if isinstance(raw.get("role"), str) else None
    if role is None:
        raise _bad(f"{where}.role is {raw.get('role')!r}; known: {', '.join(ROLES)}", f"{where}.role")
    message: Message = {"role": role, "content": _text(raw.get("content"), f"{where}.content")}
    if isinstance(raw.get("name"), str):
        message["name"] = raw["name"]
    if role == "tool":
        if not isinstance(raw.get("tool_call_id"), str):
            raise _bad(f"{where}.tool_call_id must be a string", f"{where}.tool_call_id")
        message["tool_call_id"] = raw["tool_call_id"]
    if role == "assistant":
        calls = raw.get("tool_calls")
        if calls:
            if not isinstance(calls, list):
                raise _bad(f"{where}.tool_calls must be a list", f"{where}.tool_calls")
            message["tool_calls"] = [
                _normalize_call(c, f"{where}.tool_calls[{i}]") for i, c in enumerate(calls)
            ]
        reasoning = raw.get("reasoning_content") or raw.get("reasoning")
        if isinstance(reasoning, str):
            message["reasoning_content"] = reasoning
    return message


def _normalize_call(raw: Any, where: str) -> Message:
    function = raw.get("function") if isinstance(raw, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _bad(f"{where}.function.name must be a string", where)
    arguments = function.get("arguments", "")
    if isinstance(arguments, str):
        arguments = parse_arguments(arguments)
    call_id = raw.get("id")
    return {
        "id": call_id if isinstance(call_id, str) else "",
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def parse_arguments(text: str) -> Any:
    """Return the object that tool arguments spell; text that spells none stays as it is."""
    if not text.strip():
        return {}
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _bad(f"{where} must be text, a list of parts or null", where)
    texts = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
        if kind not in ("text", "refusal") or not isinstance(text, str):
            raise ApiError(
                400,
                "unsupported_content",
                f"{where}[{place}] has type {kind!r}; this model reads text parts only",
                param=f"{where}[{place}]",
            )
        texts.append(text)
    return "".join(texts)


def _bad(message: str, param: str) -> ApiError:
    return ApiError(400, "invalid_messages", message, param=param)
