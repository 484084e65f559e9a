"""Tools for a chat template that knows none: a system block and tags in the Hermes format.

The block, the calls and the results are written as plain text:
system message + "# Tools" block; `<tool_call>{"name", "arguments"}</tool_call>` in the reply;
`<tool_response>…</tool_response>` in a user turn, neighbouring results in one turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from castform_trainer.gateway.messages import Message

TOOLS_HEAD = "# Tools\n\nYou can call functions. Their signatures, one JSON object a line:\n<tools>\n"
TOOLS_TAIL = (
    "\n</tools>\n\nTo call one, answer with its name and arguments in these tags, one pair of tags a call:\n"
    '<tool_call>\n{"name": "function-name", "arguments": {"argument": "value"}}\n</tool_call>'
)


def write_tools_as_text(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the conversation with tools, calls and results spelled out in ordinary messages."""
    written: list[Message] = []
    after_result = False
    for message in messages:
        if message["role"] == "tool":
            text = f"<tool_response>\n{message['content']}\n</tool_response>"
            if after_result:
                written[-1]["content"] += "\n" + text
            else:
                written.append({"role": "user", "content": text})
            after_result = True
            continue
        after_result = False
        written.append(_write_calls(message) if message.get("tool_calls") else dict(message))
    if not tools:
        return written
    block = TOOLS_HEAD + "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools) + TOOLS_TAIL
    if written[0]["role"] == "system":
        written[0]["content"] = f"{written[0]['content']}\n\n{block}".lstrip()
        return written
    return [{"role": "system", "content": block}, *written]


def _write_calls(message: Message) -> Message:
    calls = [
        "<tool_call>\n"
        + json.dumps(
            {"name": c["function"]["name"], "arguments": c["function"]["arguments"]}, ensure_ascii=False
        )
        + "\n</tool_call>"
        for c in message["tool_calls"]
    ]
    text = "\n".join([message["content"], *calls] if message["content"] else calls)
    return {**{k: v for k, v in message.items() if k != "tool_calls"}, "content": text}
