"""Read the token ids of an assistant turn as the gateway reads a reply, and compare tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from castform_trainer.engines.contract import Generation
from castform_trainer.gateway.parsers import knows_thinking, pick_tool_format
from castform_trainer.gateway.replies import ReplyReader
from castform_trainer.sft.turn_template import TurnTemplate

PROMPT_TAIL = 16
"""Last ids of a prompt, which tell whether it opened thinking."""


class TurnReader:
    """Reads turns of one model. Used from one thread."""

    def __init__(
        self, template: TurnTemplate, *, end_ids: Sequence[int] = (), stop: Sequence[str] = ()
    ) -> None:
        """Any of `end_ids` at the end of a turn, and what begins with one of `stop`, is no part of its text."""
        self.tool_format = pick_tool_format(template.source)
        self._stop = tuple(stop)
        self._reader = ReplyReader(
            codec=template.codec,
            tool_format=self.tool_format,
            thinking=knows_thinking(template.source),
            end_ids=frozenset(end_ids),
        )

    def read(
        self, generation: Generation, *, prompt_ids: Sequence[int], tools: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        """Return the message that the ids behind a prompt are; `tools` are those of the row."""
        message, _ = self._reader.read(
            generation,
            prompt_text=self._reader.codec.decode_exactly(prompt_ids[-PROMPT_TAIL:]),
            stop=self._stop,
            tools=tools,
            call_key="",
        )
        return message


def list_calls(message: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return (name, arguments) of each tool call of a message."""
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return [(function["name"], json.loads(function["arguments"] or "{}")) for function in functions]


def are_same_calls(found: Sequence[tuple[str, Any]], wanted: Sequence[tuple[str, Any]]) -> bool:
    """Tell whether two lists of calls are equal as JSON: 1 and 1.0 are, 1 and true are not."""
    return len(found) == len(wanted) and all(
        ours == theirs and _is_same_json(mine, yours)
        for (ours, mine), (theirs, yours) in zip(found, wanted, strict=True)
    )


def _is_same_json(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same_json, left, right))
    return bool(left == right)
