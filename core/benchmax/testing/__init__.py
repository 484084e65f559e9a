"""What tests of an environment need: a scripted model behind real HTTP."""

from __future__ import annotations

from benchmax.testing.chat_server import ChatServer
from benchmax.testing.replies import (
    Answer,
    Fault,
    RawReply,
    Reply,
    ScriptedRequest,
    ToolUse,
    function_call,
)

__all__ = [
    "Answer",
    "ChatServer",
    "Fault",
    "RawReply",
    "Reply",
    "ScriptedRequest",
    "ToolUse",
    "function_call",
]
