"""Responses input items as chat messages.

One turn of the model is several items here (reasoning, text, each call), which clients send back
whole, in part, or by id. Reasoning that is left out is put back by the gateway.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from castform_trainer.gateway.dialects.responses.tools import read_call
from castform_trainer.gateway.dialects.runs import GAP, merge_runs
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.messages import Message

Item = Mapping[str, Any]
ROLES = {"user": "user", "system": "system", "developer": "system", "assistant": "assistant"}
CALLS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
SEAL = b"castform:"
"""In front of reasoning that was given as `encrypted_content`; it is encoded, not encrypted."""


def list_items(value: Any) -> list[Item]:
    """Return the `input` of a request as a list of items."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _bad("input must be text or a list of items", "input")
    return value


def read_items(
    items: Sequence[Item], *, instructions: str | None, find_item: Callable[[str], Item | None]
) -> list[Message]:
    """Return a conversation in chat form; ApiError names the first item that is wrong.

    `find_item` gives a stored item by its id, for `item_reference`.
    """
    found: list[Message] = [{"role": "system", "content": instructions}] if instructions else []
    for place, item in enumerate(items):
        where = f"input[{place}]"
        kind = item.get("type") or ("message" if "role" in item else None)
        if kind == "item_reference" or (kind is None and isinstance(item.get("id"), str)):
            stored = find_item(str(item.get("id")))
            if stored is None:
                raise ApiError(
                    404, "item_not_found", f"no item {item.get('id')!r} is stored here", param=where
                )
            item, kind = stored, stored["type"]
        found.append(_read_item(item, kind, where))
    merged = merge_runs(found)
    if not merged:
        raise _bad("input must hold at least one item", "input")
    if merged[-1]["role"] == "assistant":
        raise _bad("the last item of input must not be the model's own: a reply is not continued", "input")
    return merged


def seal_reasoning(text: str) -> str:
    """Return what stands for encrypted reasoning."""
    return base64.b64encode(SEAL + text.encode()).decode()


def _read_item(item: Item, kind: Any, where: str) -> Message:
    if kind == "message":
        role = item.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise _bad(f"{where}.role is {role!r}; known: {', '.join(ROLES)}", f"{where}.role")
        gap = "" if role == "assistant" else GAP
        return {"role": ROLES[role], "content": _join(item.get("content"), f"{where}.content", gap)}
    if kind in CALLS:
        return {"role": "assistant", "content": "", "tool_calls": [read_call(item, where)]}
    if kind in OUTPUTS:
        call_id = item.get("call_id", item.get("id"))
        if not isinstance(call_id, str):
            raise _bad(f"{where}.call_id must be text", f"{where}.call_id")
        return {"role": "tool", "tool_call_id": call_id, "content": _read_output(item, where)}
    if kind == "reasoning":
        return {"role": "assistant", "content": "", "reasoning_content": _read_reasoning(item, where)}
    raise ApiError(
        400, "unsupported_content", f"{where} has type {kind!r}, which is not supported here", param=where
    )


def _read_output(item: Item, where: str) -> str:
    return _join(item.get("output"), f"{where}.output", GAP)


def _read_reasoning(item: Item, where: str) -> str:
    if item.get("content"):
        return _join(item["content"], f"{where}.content", GAP)
    sealed = item.get("encrypted_content")
    if not isinstance(sealed, str):
        return ""
    try:
        text = base64.b64decode(sealed, validate=True)
        return text.removeprefix(SEAL).decode() if text.startswith(SEAL) else ""
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _join(content: Any, where: str, gap: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _bad(f"{where} must be text or a list of parts", where)
    texts = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
        if kind not in (*TEXTS, "refusal") or not isinstance(text, str):
            raise ApiError(
                400,
                "unsupported_content",
                f"{where}[{place}] has type {kind!r}; this model reads text only",
                param=f"{where}[{place}]",
            )
        texts.append(text)
    return gap.join(filter(None, texts))


def _bad(message: str, param: str) -> ApiError:
    return ApiError(400, "invalid_messages", message, param=param)
