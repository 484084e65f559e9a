"""What plugin authors test with."""

from __future__ import annotations

from castform.scripted_replies import Fault, Reply, ScriptedRequest, ToolUse
from castform.testing.fake_model import FakeModel

__all__ = ["FakeModel", "Fault", "Reply", "ScriptedRequest", "ToolUse"]
