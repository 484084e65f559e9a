"""Templates with turns of their own kind that end in one token whatever they say."""

from __future__ import annotations

import hashlib
from typing import Any

from mask_oracle.parts import Message, RefusedError, as_json, calls_of, split_thinking, text_of


def _llama(role: str, text: str) -> str:
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>"


def _llama_body(message: Message) -> str:
    if not message.get("tool_calls"):
        return text_of(message).strip()
    ((name, arguments, _),) = calls_of(message)
    return f'{{"name": "{name}", "parameters": {as_json(arguments)}}}'


def write_llama(messages: list[Message], tools: list[Any], ask: bool) -> str:
    own = messages[0]["role"] == "system"
    text = "<|begin_of_text|>" + _llama(
        "system", "Today: 1 May 2026\n\n" + own * messages[0]["content"].strip()
    )
    for i, message in enumerate(messages[own:]):
        if len(message.get("tool_calls", [])) > 1:
            raise RefusedError("one call")
        if message["role"] == "tool":
            text += _llama("ipython", as_json(message["content"]))
        else:
            lead = ""
            if i == 0 and tools:
                lead = "Call one of these functions with JSON.\n\n"
                lead += "".join(as_json(t, indent=4) + "\n\n" for t in tools)
            text += _llama(message["role"], lead + _llama_body(message))
    return text + ask * "<|start_header_id|>assistant<|end_header_id|>\n\n"


def reply_llama(messages: list[Message], tools: list[Any]) -> str:
    message = messages[-1]
    if len(message.get("tool_calls", [])) > 1 or (message.get("tool_calls") and text_of(message).strip()):
        raise RefusedError("one call and nothing else")
    return _llama_body(message) + "<|eot_id|>"


def _short(call_id: str) -> str:
    number = int.from_bytes(hashlib.blake2b(f"{call_id}#0".encode(), digest_size=8).digest())
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return "".join(letters[number // 36**i % 36] for i in range(9))


def _mistral_body(message: Message) -> str:
    if not message.get("tool_calls"):
        return " " + text_of(message).strip() + "</s>"
    calls = [
        f'{{"name": "{name}", "arguments": {as_json(arguments)}, "id": "{_short(call["id"])}"}}'
        for (name, arguments, _), call in zip(calls_of(message), message["tool_calls"], strict=True)
    ]
    return "[TOOL_CALLS] [" + ", ".join(calls) + "]</s>"


def write_mistral(messages: list[Message], tools: list[Any], ask: bool) -> str:
    own = messages[0]["role"] == "system"
    shown = messages[own:]
    last = max(i for i, m in enumerate(shown) if m["role"] == "user")
    text = "<s>"
    for i, message in enumerate(shown):
        if message["role"] == "user":
            if tools and i == last:
                text += f"[AVAILABLE_TOOLS] {as_json(tools)}[/AVAILABLE_TOOLS]"
            lead = messages[0]["content"] + "\n\n" if own and i == last else ""
            text += f"[INST] {lead}{message['content']}[/INST]"
        elif message["role"] == "assistant":
            text += _mistral_body(message)
        else:
            result = {"content": message["content"], "call_id": _short(message["tool_call_id"])}
            text += f"[TOOL_RESULTS] {as_json(result)}[/TOOL_RESULTS]"
    return text


def reply_mistral(messages: list[Message], tools: list[Any]) -> str:
    if messages[-1].get("tool_calls") and text_of(messages[-1]).strip():
        raise RefusedError("calls and nothing else")
    return _mistral_body(messages[-1])


def _deepseek_calls(message: Message) -> str:
    calls = "".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{spelled}\n```<｜tool▁call▁end｜>"
        for name, _, spelled in calls_of(message)
    )
    return f"<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>"


def write_deepseek(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "<｜begin▁of▁sentence｜>" + "".join(m["content"] for m in messages if m["role"] == "system")
    text += "".join("\n" + as_json(t) for t in tools)
    for message in messages:
        content = text_of(message)
        if message["role"] == "user":
            text += f"<｜User｜>{content}"
        elif message["role"] == "tool":
            text += f"<｜tool▁output▁begin｜>{content}<｜tool▁output▁end｜>"
        elif message["role"] == "assistant":
            body = content.split("</think>")[-1] if content else _deepseek_calls(message)
            text += f"<｜Assistant｜>{body}<｜end▁of▁sentence｜>"
    return text + "<｜Assistant｜><think>\n" * ask


def reply_deepseek(messages: list[Message], tools: list[Any]) -> str:
    message = messages[-1]
    if message.get("tool_calls") and text_of(message):
        raise RefusedError("calls and nothing else")
    thought, content = split_thinking(text_of(message))
    body = content if text_of(message) else _deepseek_calls(message)
    return f"{thought}\n</think>\n\n{body}<｜end▁of▁sentence｜>"


def neighbours_body(message: Message) -> str:
    return text_of(message) + "".join(
        f"<|call|>{name} {as_json(arguments)}" for name, arguments, _ in calls_of(message)
    )


def write_neighbours(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "".join(f"<|tool|>{as_json(t)}<|end|>\n" for t in tools)
    text += "".join(f"<|{m['role']}|>\n{neighbours_body(m)}<|end|>\n" for m in messages)
    return text + "<|assistant|>\n" * ask
