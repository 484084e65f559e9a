"""Readers of what models write: tool calls in the format of their chat template, and reasoning."""

from __future__ import annotations

from castform_trainer.gateway.parsers.formats import pick_tool_format
from castform_trainer.gateway.parsers.parsed import ParsedCall, ParsedText, ToolFormat
from castform_trainer.gateway.parsers.think import knows_thinking, split_reasoning

__all__ = [
    "ParsedCall",
    "ParsedText",
    "ToolFormat",
    "knows_thinking",
    "pick_tool_format",
    "split_reasoning",
]
