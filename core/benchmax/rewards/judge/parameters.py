"""The optional parameters of a chat request, and what an endpoint's refusal of one means."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

REFUSAL_STATUSES = frozenset({400, 422})
MENTIONS = {"response_format": "response_format|json_object|json[ _]mode"}
"""What errors call a parameter, where that is not always its name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """What an endpoint takes, as far as it is known; at first everything."""

    json_mode: bool = True
    """`response_format` of type `json_object`."""
    temperature: bool = True
    limit_name: str = "max_tokens"
    """Newer models take `max_completion_tokens` in its place."""

    def fields(self, *, prompt: str, temperature: float, max_tokens: int | None) -> dict[str, Any]:
        """Return the parameters to send. JSON mode is asked for only where the prompt speaks of JSON."""
        fields: dict[str, Any] = {}
        if self.json_mode and "json" in prompt.lower():
            fields["response_format"] = {"type": "json_object"}
        if self.temperature:
            fields["temperature"] = temperature
        if max_tokens is not None:
            fields[self.limit_name] = max_tokens
        return fields

    def without(self, name: str) -> Accepted | None:
        """Return what is left once the endpoint has refused a parameter; None: it cannot be left out."""
        if name == "response_format":
            return replace(self, json_mode=False)
        if name == "temperature":
            return replace(self, temperature=False)
        if name == "max_tokens":
            return replace(self, limit_name="max_completion_tokens")
        return None


def refused_parameter(status: int, body: bytes, sent: Mapping[str, Any]) -> str | None:
    """Return the name of a sent parameter that an error reply is about, or None.

    That is the one in its `error.param`, else the one that the body mentions first.
    """
    if status not in REFUSAL_STATUSES:
        return None
    text = body.decode("utf-8", errors="replace")
    named = _param_field(text)
    if named in sent:
        return named
    mentions = {name: re.search(rf"\b({MENTIONS.get(name, name)})\b", text, re.IGNORECASE) for name in sent}
    places = {name: match.start() for name, match in mentions.items() if match}
    return min(places, key=places.__getitem__, default=None)


def _param_field(text: str) -> str:
    try:
        param = json.loads(text)["error"]["param"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return param if isinstance(param, str) else ""
