"""The library's messages and dataset rows as plain data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def plain_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Return messages in OpenAI's form."""
    return [_plain_message(message) for message in messages]


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dataset row as JSON, without its number, and with `info` that was packed as text taken apart."""
    kept = {key: value for key, value in row.items() if key != "example_id" and value is not None}
    if isinstance(kept.get("prompt"), Sequence) and not isinstance(kept["prompt"], str):
        kept["prompt"] = plain_messages(kept["prompt"])
    if isinstance(kept.get("info"), str):
        kept["info"] = json.loads(kept["info"])
    return kept


def split_share(row: Mapping[str, Any]) -> float:
    """Return where in [0, 1) a row lies when a dataset is split, by its prompt alone: the same everywhere."""
    text = json.dumps(row.get("prompt"), sort_keys=True, ensure_ascii=False, default=str)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def _plain_message(message: Any) -> dict[str, Any]:
    plain = dict(
        message.model_dump(mode="json", exclude_none=True) if hasattr(message, "model_dump") else message
    )
    plain = {key: value for key, value in plain.items() if value is not None}
    if plain.get("tool_calls"):
        plain["tool_calls"] = [_plain_call(call) for call in plain["tool_calls"]]
        plain.setdefault("content", None)
    return plain


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    if "function" in call:
        return dict(call)
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": call["name"], "arguments": call["arguments"]},
    }
