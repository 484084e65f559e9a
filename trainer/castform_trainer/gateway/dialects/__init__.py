"""The request and reply shapes that clients speak: chat completions, Responses, Anthropic Messages.

A dialect turns a body into a `ChatRequest` and an `Answer` into a reply or a stream. Rendering,
splicing, sampling and recording know nothing of it.
"""

from __future__ import annotations

from castform_trainer.gateway.dialects.anthropic.dialect import ANTHROPIC
from castform_trainer.gateway.dialects.chat import CHAT
from castform_trainer.gateway.dialects.contract import Dialect
from castform_trainer.gateway.dialects.responses.dialect import RESPONSES

__all__ = ["ANTHROPIC", "CHAT", "RESPONSES", "Dialect"]
