"""Templates that know no tools: calls and results are spelled out in their messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mask_oracle.parts import (
    Message,
    RefusedError,
    as_json,
    group_results,
    text_of,
    write_hermes_turn,
)

TOOLS_HEAD = "# Tools\n\nYou can call functions. Their signatures, one JSON object a line:\n<tools>\n"
TOOLS_TAIL = (
    "\n</tools>\n\nTo call one, answer with its name and arguments in these tags, one pair of tags a call:\n"
    '<tool_call>\n{"name": "function-name", "arguments": {"argument": "value"}}\n</tool_call>'
)


def spell_tools(messages: list[Message], tools: list[Any]) -> list[tuple[str, str]]:
    """Return (role, text) for templates that know no tools."""
    turns = []
    for group in group_results(messages):
        if group[0]["role"] == "tool":
            parts = [f"<tool_response>\n{m['content']}\n</tool_response>" for m in group]
            turns.append(("user", "\n".join(parts)))
        else:
            turns.append((group[0]["role"], write_hermes_turn(group[0], text_of(group[0]))))
    if tools:
        block = TOOLS_HEAD + "\n".join(as_json(tool) for tool in tools) + TOOLS_TAIL
        if turns[0][0] == "system":
            turns[0] = ("system", f"{turns[0][1]}\n\n{block}".lstrip())
        else:
            turns.insert(0, ("system", block))
    return turns


def chatml(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


ASK = "<|im_start|>assistant\n"


def write_chatml(messages: list[Message], tools: list[Any], ask: bool, default: str = "") -> str:
    turns = spell_tools(messages, tools)
    head = chatml("system", default) if default and turns[0][0] != "system" else ""
    return head + "".join(chatml(*turn) for turn in turns) + ASK * ask


def write_smollm2(messages: list[Message], tools: list[Any], ask: bool) -> str:
    return write_chatml(messages, tools, ask, "You answer briefly and kindly.")


def write_gemma(messages: list[Message], tools: list[Any], ask: bool) -> str:
    turns = spell_tools(messages, tools)
    if turns[0][0] == "system":
        raise RefusedError("no system")
    names = {"assistant": "model", "user": "user"}
    text = "".join(f"<start_of_turn>{names[role]}\n{text.strip()}<end_of_turn>\n" for role, text in turns)
    return "<bos>" + text + "<start_of_turn>model\n" * ask


def write_phi(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "".join(f"<|{role}|>\n{text}<|end|>\n" for role, text in spell_tools(messages, tools))
    return text + "<|assistant|>\n" * ask


def reply_spelled(end: str, trim: bool = False) -> Callable[[list[Message], list[Any]], str]:
    def reply(messages: list[Message], tools: list[Any]) -> str:
        text = write_hermes_turn(messages[-1], text_of(messages[-1]))
        return (text.strip() if trim else text) + end

    return reply
