"""Templates in ChatML that know tools, some of which strip thinking from the history."""

from __future__ import annotations

from typing import Any

from mask_oracle.parts import (
    Message,
    as_json,
    calls_of,
    group_results,
    split_thinking,
    text_of,
    write_hermes_turn,
    write_results,
    write_value,
)
from mask_oracle.spelled import ASK, chatml


def write_qwen25(messages: list[Message], tools: list[Any], ask: bool) -> str:
    own = messages[0]["role"] == "system"
    head = messages[0]["content"] if own else "You are a model that helps."
    if tools:
        head += "\n\n# Tools\n<tools>" + "".join("\n" + as_json(t) for t in tools) + "\n</tools>"
    text = chatml("system", head)
    for group in group_results(messages[own:]):
        role = group[0]["role"]
        if role == "tool":
            text += "<|im_start|>user" + write_results(group) + "<|im_end|>\n"
        else:
            text += chatml(role, write_hermes_turn(group[0], text_of(group[0])))
    return text + ASK * ask


def write_qwen3(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = ""
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    if tools:
        text = chatml(
            "system",
            (f"{system}\n\n" if system is not None else "")
            + "# Tools\n<tools>"
            + "".join("\n" + as_json(t) for t in tools)
            + "\n</tools>",
        )
    elif system is not None:
        text = chatml("system", system)
    query = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    place = 0
    for group in group_results(messages):
        first, at = group[0], place
        place += len(group)
        if first["role"] == "tool":
            text += "<|im_start|>user" + write_results(group) + "<|im_end|>\n"
        elif first["role"] == "user":
            text += chatml("user", first["content"])
        elif first["role"] == "assistant":
            thought, content = split_thinking(text_of(first))
            shown = (
                f"<think>\n{thought}\n</think>\n\n{content.lstrip(chr(10))}"
                if at > query and thought
                else content
            )
            text += chatml("assistant", _qwen3_body(first, shown, content))
    return text + ASK * ask


def _qwen3_body(message: Message, shown: str, content: str) -> str:
    calls = write_hermes_turn(message, "")
    return shown + ("\n" if calls and content else "") + calls


def reply_qwen3(messages: list[Message], tools: list[Any]) -> str:
    thought, content = split_thinking(text_of(messages[-1]))
    shown = f"<think>\n{thought}\n</think>\n\n{content.lstrip(chr(10))}"
    return _qwen3_body(messages[-1], shown, content) + "<|im_end|>"


def markers_body(message: Message) -> str:
    text = text_of(message)
    for i, (name, arguments, _) in enumerate(calls_of(message)):
        text += "\n" if text or i else ""
        text += f"<tool_call>\n<function={name}>\n"
        text += "".join(f"<parameter={k}>\n{write_value(v)}\n</parameter>\n" for k, v in arguments.items())
        text += "</function>\n</tool_call>"
    return text


def write_markers(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = chatml("system", "# Tools" + "".join("\n" + as_json(t) for t in tools)) if tools else ""
    return text + "".join(chatml(m["role"], markers_body(m)) for m in messages) + ASK * ask


def hermes_body(message: Message) -> str:
    content, parts = text_of(message), []
    for name, _, spelled in calls_of(message):
        parts.append(f'<tool_call>\n{{"name": "{name}", "arguments": {spelled}}}\n</tool_call>')
    return "\n".join([content, *parts] if content else parts)


def write_hermes(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "<|begin_of_text|>"
    if tools:
        text += chatml(
            "system", "You call functions. <tools>" + "".join(" " + as_json(t) for t in tools) + " </tools>"
        )
    for group in group_results(messages):
        if group[0]["role"] == "tool":
            text += chatml(
                "tool", "\n".join(f"<tool_response>\n{m['content']}\n</tool_response>" for m in group)
            )
        else:
            text += chatml(group[0]["role"], hermes_body(group[0]))
    return text + ASK * ask
