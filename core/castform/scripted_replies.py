"""What a scripted model may say. The forms are `benchmax.testing`'s; here they get the size of a model call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmax.testing.replies import (
    Answer,
    Fault,
    RawReply,
    Reply,
    Script,
    ScriptedRequest,
    ToolUse,
    make_reply,
)

__all__ = [
    "Answer",
    "Fault",
    "RawReply",
    "Reply",
    "Script",
    "ScriptedRequest",
    "ToolUse",
    "count_words",
    "make_reply",
]


def count_words(messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the words in messages and in what they call: a script's stand-in for tokens."""
    texts = [message.get("content") or "" for message in messages]
    texts += [
        f"{call['function']['name']} {call['function']['arguments']}"
        for message in messages
        for call in message.get("tool_calls") or ()
    ]
    return sum(len((text if isinstance(text, str) else json.dumps(text)).split()) for text in texts)
