"""Templates whose end of a turn depends on what it says or what follows it."""

from __future__ import annotations

from typing import Any

from mask_oracle.parts import (
    Message,
    RefusedError,
    as_json,
    calls_of,
    group_results,
    split_thinking,
    text_of,
    write_results,
    write_value,
)


def _glm_body(message: Message) -> str:
    text = text_of(message)
    for name, arguments, _ in calls_of(message):
        text += f"\n<tool_call>{name}"
        for key, value in arguments.items():
            text += f"\n<arg_key>{key}</arg_key>\n<arg_value>{write_value(value)}</arg_value>"
        text += "\n</tool_call>"
    return text


def write_glm(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "[gMASK]<sop>" + "".join(f"<|system|>\n{as_json(t)}" for t in tools)
    for group in group_results(messages):
        role = group[0]["role"]
        text += (
            "<|observation|>" + write_results(group)
            if role == "tool"
            else f"<|{role}|>\n{_glm_body(group[0])}"
        )
    return text + "<|assistant|>\n" * ask


def reply_glm(messages: list[Message], tools: list[Any]) -> str:
    end = "<|observation|>" if messages[-1].get("tool_calls") else "<|user|>"
    return _glm_body(messages[-1]) + end


def _harmony_body(message: Message, thinks: bool, end: str) -> str:
    thought, content = split_thinking(text_of(message))
    text = f"<|start|>assistant<|channel|>analysis<|message|>{thought}<|end|>" if thinks and thought else ""
    if message.get("tool_calls"):
        for name, arguments, _ in calls_of(message):
            text += f"<|start|>assistant to={name}<|message|>{as_json(arguments)}<|call|>"
        return text
    return text + f"<|start|>assistant<|channel|>final<|message|>{content}{end}"


def write_harmony(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "".join(f"<|start|>developer<|message|>{as_json(t)}<|end|>" for t in tools)
    query = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            text += _harmony_body(message, i > query, "<|end|>")
        else:
            role = "tool to=assistant" if message["role"] == "tool" else message["role"]
            text += f"<|start|>{role}<|message|>{message['content']}<|end|>"
    return text + "<|start|>assistant" * ask


def reply_harmony(messages: list[Message], tools: list[Any]) -> str:
    message = messages[-1]
    calls = message.get("tool_calls", [])
    if len(calls) > 1 or (calls and split_thinking(text_of(message))[1].strip()):
        raise RefusedError("one call and nothing else")
    return _harmony_body(message, True, "<|return|>").removeprefix("<|start|>assistant")
