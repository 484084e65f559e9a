"""Messages of other dialects, put in the order and number of turns that every chat template takes.

Clients of these dialects send several system, user or assistant messages in a row, and spread one
turn over them as they like. Here such a run is one turn, so that a conversation is the same
however it was cut, and templates that want turns to alternate accept it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from castform_trainer.gateway.messages import Message

GAP = "\n"
"""Between texts of one user or system turn."""


def merge_runs(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Return chat messages with one turn for each run.

    System messages in front become one; later ones are part of the user's turn. What a user's
    turn holds comes after the results of tools that stand in the same run. An assistant's run
    has its texts joined without a gap and all its calls.
    """
    merged: list[Message] = []
    for message in messages:
        role = message["role"]
        if role == "system" and merged and merged[-1]["role"] != "system":
            role, message = "user", {"role": "user", "content": f"<system>\n{message['content']}\n</system>"}
        last = merged[-1] if merged else None
        if role == "assistant":
            if last is not None and last["role"] == "assistant":
                _join_reply(last, message)
                continue
        elif role == "tool":
            if last is not None and last["role"] == "user":
                merged.insert(len(merged) - 1, dict(message))
                continue
        elif last is not None and last["role"] == role:
            last["content"] = GAP.join(filter(None, (last["content"], message["content"])))
            continue
        merged.append(dict(message))
    return merged


def _join_reply(turn: Message, more: Mapping[str, Any]) -> None:
    turn["content"] = (turn.get("content") or "") + (more.get("content") or "")
    if more.get("tool_calls"):
        turn["tool_calls"] = [*turn.get("tool_calls", ()), *more["tool_calls"]]
    if more.get("reasoning_content"):
        turn["reasoning_content"] = GAP.join(
            filter(None, (turn.get("reasoning_content"), more["reasoning_content"]))
        )
