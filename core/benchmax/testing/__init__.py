"""What tests of an environment need: a scripted model behind real HTTP."""

from __future__ import annotations

from benchmax.testing.chat_server import (
    ChatServer,
    ErrorReply,
    RawReply,
    ServedRequest,
    completion_body,
    function_call,
)

__all__ = ["ChatServer", "ErrorReply", "RawReply", "ServedRequest", "completion_body", "function_call"]
