"""What every tool-call reader returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform_trainer.gateway.strict_json import parse_json


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedCall:
    """One tool call: the function's name and its arguments as a JSON object in text."""

    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedText:
    """A reply taken apart. What cannot be read as a call stays in `content`, unchanged."""

    content: str
    calls: tuple[ParsedCall, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolFormat:
    """How one family of models writes tool calls."""

    name: str
    markers: tuple[str, ...]
    """Control tokens that must stay visible for `parse`."""
    parse: Callable[[str, Sequence[Mapping[str, Any]]], ParsedText]
    """(reply text, offered tools) -> ParsedText. Never raises."""


_NO_ARGUMENTS = ("", '{}""')
"""Texts that models write where there are none, beside `{}` and null."""


def make_call(value: Any) -> ParsedCall | None:
    """Return the call that a decoded JSON object spells, or None when it spells none."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    if arguments is None or (isinstance(arguments, str) and arguments.strip() in _NO_ARGUMENTS):
        arguments = {}
    elif isinstance(arguments, str):
        arguments = load_json(arguments)
    if not isinstance(arguments, dict):
        return None
    return ParsedCall(name=value["name"], arguments=json.dumps(arguments, ensure_ascii=False))


def load_json(text: str) -> Any:
    """Return decoded JSON, or None for text that is not JSON (or holds NaN and the like)."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return None
