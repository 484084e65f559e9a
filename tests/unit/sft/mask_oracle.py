"""What the templates here mean, written once more in plain Python: the oracle for the masks.

It shares no code with the masks and renders no jinja. `expect(name, row)` gives the prompt and the
reply of every trained turn as texts, or Refused where the template cannot show the row.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

TOOLS_HEAD = "# Tools\n\nYou can call functions. Their signatures, one JSON object a line:\n<tools>\n"
TOOLS_TAIL = (
    "\n</tools>\n\nTo call one, answer with its name and arguments in these tags, one pair of tags a call:\n"
    '<tool_call>\n{"name": "function-name", "arguments": {"argument": "value"}}\n</tool_call>'
)
THINK = re.compile(r"\s*<think>(.*?)</think>(.*)", re.DOTALL)
Message = dict[str, Any]
Writer = Callable[[list[Message], list[Any], bool], str]
"""(messages, tools, is a reply awaited) to text."""


class RefusedError(Exception):
    """The template cannot show this conversation."""


def expect(name: str, row: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Return (index of the message, prompt, reply with its end) of each trained turn. Raises RefusedError."""
    write, split = WRITERS[name]
    messages, tools = row["messages"], row.get("tools") or []
    found = []
    for place, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("weight", 1):
            prompt = write(messages[:place], tools, True)
            found.append((place, prompt, split(messages[: place + 1], tools)))
    return found


def _json(value: Any, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


def _text(message: Message) -> str:
    return message.get("content") or ""


def _calls(message: Message) -> list[tuple[str, Any, str]]:
    return [
        (c["function"]["name"], json.loads(c["function"]["arguments"]), c["function"]["arguments"])
        for c in message.get("tool_calls", [])
    ]


def _think(content: str) -> tuple[str, str]:
    match = THINK.fullmatch(content)
    return (match[1].strip("\n"), match[2].lstrip("\n")) if match else ("", content)


def _hermes(message: Message, content: str) -> str:
    blocks = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {_json(arguments)}}}\n</tool_call>'
        for name, arguments, _ in _calls(message)
    ]
    return "\n".join([content, *blocks] if content else blocks)


def _groups(messages: list[Message]) -> list[list[Message]]:
    """Put neighbouring tool results together."""
    groups: list[list[Message]] = []
    for message in messages:
        if message["role"] == "tool" and groups and groups[-1][0]["role"] == "tool":
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _spelled(messages: list[Message], tools: list[Any]) -> list[tuple[str, str]]:
    """Return (role, text) for templates that know no tools."""
    turns = []
    for group in _groups(messages):
        if group[0]["role"] == "tool":
            parts = [f"<tool_response>\n{m['content']}\n</tool_response>" for m in group]
            turns.append(("user", "\n".join(parts)))
        else:
            turns.append((group[0]["role"], _hermes(group[0], _text(group[0]))))
    if tools:
        block = TOOLS_HEAD + "\n".join(_json(tool) for tool in tools) + TOOLS_TAIL
        if turns[0][0] == "system":
            turns[0] = ("system", f"{turns[0][1]}\n\n{block}".lstrip())
        else:
            turns.insert(0, ("system", block))
    return turns


def _chatml(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


ASK = "<|im_start|>assistant\n"


def _write_chatml(messages: list[Message], tools: list[Any], ask: bool, default: str = "") -> str:
    turns = _spelled(messages, tools)
    head = _chatml("system", default) if default and turns[0][0] != "system" else ""
    return head + "".join(_chatml(*turn) for turn in turns) + ASK * ask


def _write_smollm2(messages: list[Message], tools: list[Any], ask: bool) -> str:
    return _write_chatml(messages, tools, ask, "You answer briefly and kindly.")


def _reply_spelled(end: str, trim: bool = False) -> Callable[[list[Message], list[Any]], str]:
    def reply(messages: list[Message], tools: list[Any]) -> str:
        text = _hermes(messages[-1], _text(messages[-1]))
        return (text.strip() if trim else text) + end

    return reply


def _results(group: list[Message]) -> str:
    return "".join(f"\n<tool_response>\n{m['content']}\n</tool_response>" for m in group)


def _write_qwen25(messages: list[Message], tools: list[Any], ask: bool) -> str:
    own = messages[0]["role"] == "system"
    head = messages[0]["content"] if own else "You are a model that helps."
    if tools:
        head += "\n\n# Tools\n<tools>" + "".join("\n" + _json(t) for t in tools) + "\n</tools>"
    text = _chatml("system", head)
    for group in _groups(messages[own:]):
        role = group[0]["role"]
        if role == "tool":
            text += "<|im_start|>user" + _results(group) + "<|im_end|>\n"
        else:
            text += _chatml(role, _hermes(group[0], _text(group[0])))
    return text + ASK * ask


def _write_qwen3(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = ""
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    if tools:
        text = _chatml(
            "system",
            (f"{system}\n\n" if system is not None else "")
            + "# Tools\n<tools>"
            + "".join("\n" + _json(t) for t in tools)
            + "\n</tools>",
        )
    elif system is not None:
        text = _chatml("system", system)
    query = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    place = 0
    for group in _groups(messages):
        first, at = group[0], place
        place += len(group)
        if first["role"] == "tool":
            text += "<|im_start|>user" + _results(group) + "<|im_end|>\n"
        elif first["role"] == "user":
            text += _chatml("user", first["content"])
        elif first["role"] == "assistant":
            thought, content = _think(_text(first))
            shown = (
                f"<think>\n{thought}\n</think>\n\n{content.lstrip(chr(10))}"
                if at > query and thought
                else content
            )
            text += _chatml("assistant", _qwen3_body(first, shown, content))
    return text + ASK * ask


def _qwen3_body(message: Message, shown: str, content: str) -> str:
    calls = _hermes(message, "")
    return shown + ("\n" if calls and content else "") + calls


def _reply_qwen3(messages: list[Message], tools: list[Any]) -> str:
    thought, content = _think(_text(messages[-1]))
    shown = f"<think>\n{thought}\n</think>\n\n{content.lstrip(chr(10))}"
    return _qwen3_body(messages[-1], shown, content) + "<|im_end|>"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _markers_body(message: Message) -> str:
    text = _text(message)
    for i, (name, arguments, _) in enumerate(_calls(message)):
        text += "\n" if text or i else ""
        text += f"<tool_call>\n<function={name}>\n"
        text += "".join(f"<parameter={k}>\n{_value(v)}\n</parameter>\n" for k, v in arguments.items())
        text += "</function>\n</tool_call>"
    return text


def _write_markers(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = _chatml("system", "# Tools" + "".join("\n" + _json(t) for t in tools)) if tools else ""
    return text + "".join(_chatml(m["role"], _markers_body(m)) for m in messages) + ASK * ask


def _llama(role: str, text: str) -> str:
    return f"<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>"


def _llama_body(message: Message) -> str:
    if not message.get("tool_calls"):
        return _text(message).strip()
    ((name, arguments, _),) = _calls(message)
    return f'{{"name": "{name}", "parameters": {_json(arguments)}}}'


def _write_llama(messages: list[Message], tools: list[Any], ask: bool) -> str:
    own = messages[0]["role"] == "system"
    text = "<|begin_of_text|>" + _llama(
        "system", "Today: 1 May 2026\n\n" + own * messages[0]["content"].strip()
    )
    for i, message in enumerate(messages[own:]):
        if len(message.get("tool_calls", [])) > 1:
            raise RefusedError("one call")
        if message["role"] == "tool":
            text += _llama("ipython", _json(message["content"]))
        else:
            lead = ""
            if i == 0 and tools:
                lead = "Call one of these functions with JSON.\n\n"
                lead += "".join(_json(t, indent=4) + "\n\n" for t in tools)
            text += _llama(message["role"], lead + _llama_body(message))
    return text + ask * "<|start_header_id|>assistant<|end_header_id|>\n\n"


def _reply_llama(messages: list[Message], tools: list[Any]) -> str:
    message = messages[-1]
    if len(message.get("tool_calls", [])) > 1 or (message.get("tool_calls") and _text(message).strip()):
        raise RefusedError("one call and nothing else")
    return _llama_body(message) + "<|eot_id|>"


def _short(call_id: str) -> str:
    number = int.from_bytes(hashlib.blake2b(f"{call_id}#0".encode(), digest_size=8).digest())
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return "".join(letters[number // 36**i % 36] for i in range(9))


def _mistral_body(message: Message) -> str:
    if not message.get("tool_calls"):
        return " " + _text(message).strip() + "</s>"
    calls = [
        f'{{"name": "{name}", "arguments": {_json(arguments)}, "id": "{_short(call["id"])}"}}'
        for (name, arguments, _), call in zip(_calls(message), message["tool_calls"], strict=True)
    ]
    return "[TOOL_CALLS] [" + ", ".join(calls) + "]</s>"


def _write_mistral(messages: list[Message], tools: list[Any], ask: bool) -> str:
    own = messages[0]["role"] == "system"
    shown = messages[own:]
    last = max(i for i, m in enumerate(shown) if m["role"] == "user")
    text = "<s>"
    for i, message in enumerate(shown):
        if message["role"] == "user":
            if tools and i == last:
                text += f"[AVAILABLE_TOOLS] {_json(tools)}[/AVAILABLE_TOOLS]"
            lead = messages[0]["content"] + "\n\n" if own and i == last else ""
            text += f"[INST] {lead}{message['content']}[/INST]"
        elif message["role"] == "assistant":
            text += _mistral_body(message)
        else:
            result = {"content": message["content"], "call_id": _short(message["tool_call_id"])}
            text += f"[TOOL_RESULTS] {_json(result)}[/TOOL_RESULTS]"
    return text


def _reply_mistral(messages: list[Message], tools: list[Any]) -> str:
    if messages[-1].get("tool_calls") and _text(messages[-1]).strip():
        raise RefusedError("calls and nothing else")
    return _mistral_body(messages[-1])


def _write_gemma(messages: list[Message], tools: list[Any], ask: bool) -> str:
    turns = _spelled(messages, tools)
    if turns[0][0] == "system":
        raise RefusedError("no system")
    names = {"assistant": "model", "user": "user"}
    text = "".join(f"<start_of_turn>{names[role]}\n{text.strip()}<end_of_turn>\n" for role, text in turns)
    return "<bos>" + text + "<start_of_turn>model\n" * ask


def _write_phi(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "".join(f"<|{role}|>\n{text}<|end|>\n" for role, text in _spelled(messages, tools))
    return text + "<|assistant|>\n" * ask


def _hermes_body(message: Message) -> str:
    content, parts = _text(message), []
    for name, _, spelled in _calls(message):
        parts.append(f'<tool_call>\n{{"name": "{name}", "arguments": {spelled}}}\n</tool_call>')
    return "\n".join([content, *parts] if content else parts)


def _write_hermes(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "<|begin_of_text|>"
    if tools:
        text += _chatml(
            "system", "You call functions. <tools>" + "".join(" " + _json(t) for t in tools) + " </tools>"
        )
    for group in _groups(messages):
        if group[0]["role"] == "tool":
            text += _chatml(
                "tool", "\n".join(f"<tool_response>\n{m['content']}\n</tool_response>" for m in group)
            )
        else:
            text += _chatml(group[0]["role"], _hermes_body(group[0]))
    return text + ASK * ask


def _deepseek_calls(message: Message) -> str:
    calls = "".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{spelled}\n```<｜tool▁call▁end｜>"
        for name, _, spelled in _calls(message)
    )
    return f"<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>"


def _write_deepseek(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "<｜begin▁of▁sentence｜>" + "".join(m["content"] for m in messages if m["role"] == "system")
    text += "".join("\n" + _json(t) for t in tools)
    for message in messages:
        content = _text(message)
        if message["role"] == "user":
            text += f"<｜User｜>{content}"
        elif message["role"] == "tool":
            text += f"<｜tool▁output▁begin｜>{content}<｜tool▁output▁end｜>"
        elif message["role"] == "assistant":
            body = content.split("</think>")[-1] if content else _deepseek_calls(message)
            text += f"<｜Assistant｜>{body}<｜end▁of▁sentence｜>"
    return text + "<｜Assistant｜><think>\n" * ask


def _reply_deepseek(messages: list[Message], tools: list[Any]) -> str:
    message = messages[-1]
    if message.get("tool_calls") and _text(message):
        raise RefusedError("calls and nothing else")
    thought, content = _think(_text(message))
    body = content if _text(message) else _deepseek_calls(message)
    return f"{thought}\n</think>\n\n{body}<｜end▁of▁sentence｜>"


def _glm_body(message: Message) -> str:
    text = _text(message)
    for name, arguments, _ in _calls(message):
        text += f"\n<tool_call>{name}"
        for key, value in arguments.items():
            text += f"\n<arg_key>{key}</arg_key>\n<arg_value>{_value(value)}</arg_value>"
        text += "\n</tool_call>"
    return text


def _write_glm(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "[gMASK]<sop>" + "".join(f"<|system|>\n{_json(t)}" for t in tools)
    for group in _groups(messages):
        role = group[0]["role"]
        text += (
            "<|observation|>" + _results(group) if role == "tool" else f"<|{role}|>\n{_glm_body(group[0])}"
        )
    return text + "<|assistant|>\n" * ask


def _reply_glm(messages: list[Message], tools: list[Any]) -> str:
    end = "<|observation|>" if messages[-1].get("tool_calls") else "<|user|>"
    return _glm_body(messages[-1]) + end


def _harmony_body(message: Message, thinks: bool, end: str) -> str:
    thought, content = _think(_text(message))
    text = f"<|start|>assistant<|channel|>analysis<|message|>{thought}<|end|>" if thinks and thought else ""
    if message.get("tool_calls"):
        for name, arguments, _ in _calls(message):
            text += f"<|start|>assistant to={name}<|message|>{_json(arguments)}<|call|>"
        return text
    return text + f"<|start|>assistant<|channel|>final<|message|>{content}{end}"


def _write_harmony(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "".join(f"<|start|>developer<|message|>{_json(t)}<|end|>" for t in tools)
    query = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    for i, message in enumerate(messages):
        if message["role"] == "assistant":
            text += _harmony_body(message, i > query, "<|end|>")
        else:
            role = "tool to=assistant" if message["role"] == "tool" else message["role"]
            text += f"<|start|>{role}<|message|>{message['content']}<|end|>"
    return text + "<|start|>assistant" * ask


def _reply_harmony(messages: list[Message], tools: list[Any]) -> str:
    message = messages[-1]
    calls = message.get("tool_calls", [])
    if len(calls) > 1 or (calls and _think(_text(message))[1].strip()):
        raise RefusedError("one call and nothing else")
    return _harmony_body(message, True, "<|return|>").removeprefix("<|start|>assistant")


def _neighbours_body(message: Message) -> str:
    return _text(message) + "".join(
        f"<|call|>{name} {_json(arguments)}" for name, arguments, _ in _calls(message)
    )


def _write_neighbours(messages: list[Message], tools: list[Any], ask: bool) -> str:
    text = "".join(f"<|tool|>{_json(t)}<|end|>\n" for t in tools)
    text += "".join(f"<|{m['role']}|>\n{_neighbours_body(m)}<|end|>\n" for m in messages)
    return text + "<|assistant|>\n" * ask


def _own(body: Callable[[Message], str], end: str) -> Callable[[list[Message], list[Any]], str]:
    return lambda messages, tools: body(messages[-1]) + end


WRITERS: dict[str, tuple[Writer, Callable[[list[Message], list[Any]], str]]] = {
    "chatml": (_write_chatml, _reply_spelled("<|im_end|>")),
    "smollm2": (_write_smollm2, _reply_spelled("<|im_end|>")),
    "qwen25": (_write_qwen25, _reply_spelled("<|im_end|>")),
    "qwen3": (_write_qwen3, _reply_qwen3),
    "qwen_markers": (_write_markers, _own(_markers_body, "<|im_end|>")),
    "llama3": (_write_llama, _reply_llama),
    "mistral": (_write_mistral, _reply_mistral),
    "gemma": (_write_gemma, _reply_spelled("<end_of_turn>", trim=True)),
    "phi35": (_write_phi, _reply_spelled("<|end|>")),
    "hermes": (_write_hermes, _own(_hermes_body, "<|im_end|>")),
    "deepseek": (_write_deepseek, _reply_deepseek),
    "glm": (_write_glm, _reply_glm),
    "harmony": (_write_harmony, _reply_harmony),
    "neighbours": (_write_neighbours, _own(_neighbours_body, "<|end|>")),
}
