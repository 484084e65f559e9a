"""What several templates have in common: calls, results and thinking as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

THINK = re.compile(r"\s*<think>(.*?)</think>(.*)", re.DOTALL)
Message = dict[str, Any]
Writer = Callable[[list[Message], list[Any], bool], str]
"""(messages, tools, is a reply awaited) to text."""


class RefusedError(Exception):
    """The template cannot show this conversation."""


def as_json(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


def text_of(message: Message) -> str:
    return message.get("content") or ""


def calls_of(message: Message) -> list[tuple[str, Any, str]]:
    return [
        (c["function"]["name"], json.loads(c["function"]["arguments"]), c["function"]["arguments"])
        for c in message.get("tool_calls", [])
    ]


def split_thinking(content: str) -> tuple[str, str]:
    match = THINK.fullmatch(content)
    return (match[1].strip("\n"), match[2].lstrip("\n")) if match else ("", content)


def write_hermes_turn(message: Message, content: str) -> str:
    blocks = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {as_json(arguments)}}}\n</tool_call>'
        for name, arguments, _ in calls_of(message)
    ]
    return "\n".join([content, *blocks] if content else blocks)


def group_results(messages: list[Message]) -> list[list[Message]]:
    """Put neighbouring tool results together."""
    groups: list[list[Message]] = []
    for message in messages:
        if message["role"] == "tool" and groups and groups[-1][0]["role"] == "tool":
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def write_results(group: list[Message]) -> str:
    return "".join(f"\n<tool_response>\n{m['content']}\n</tool_response>" for m in group)


def write_value(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)
