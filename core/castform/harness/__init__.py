"""Agent programs: what they are, how they are named, and how any of them is wrapped without code."""

from __future__ import annotations

from castform.harness.contract import (
    AgentTask,
    Harness,
    HarnessError,
    HarnessResult,
    HarnessStatus,
    McpServer,
)
from castform.harness.load import load_harness, make_section

__all__ = [
    "AgentTask",
    "Harness",
    "HarnessError",
    "HarnessResult",
    "HarnessStatus",
    "McpServer",
    "load_harness",
    "make_section",
]
