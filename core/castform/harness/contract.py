"""What a harness is: an agent program, made to work on one task inside a box.

A harness never sees a reward and never decides one. It gets a task, a box and a model endpoint;
it says how the program ended. Whatever the program makes the model say goes through the endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from castform.sandbox.contract import ModelEndpoint, Sandbox

HarnessStatus = Literal[
    "finished", "timeout", "nonzero_exit", "context_exceeded", "output_exceeded", "max_turns"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class McpServer:
    """A tool server that the task offers to the agent."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentTask:
    """What the agent is asked to do."""

    instruction: str
    workdir: str | None = None
    """Where it works; None: the box's own."""
    user: str | None = None
    timeout_seconds: float | None = None
    """For the whole run. The harness enforces it inside the box; the caller's own limit is later."""
    env: Mapping[str, str] = field(default_factory=dict)
    mcp_servers: Sequence[McpServer] = ()
    skills_dir: str | None = None
    """A folder in the box with skills for the agent."""
    trajectory: Mapping[str, Any] | None = None  # Any: ATIF, a JSON document of its own schema
    """What was said before, in ATIF, for agents that can go on from it."""
    log_dir: str = "/logs/agent"
    """A folder in the box for what the agent logs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HarnessResult:
    """How the program ended."""

    status: HarnessStatus
    exit_code: int | None = None
    output: str = ""
    """The tail of what it wrote, for a person."""
    trajectory: Mapping[str, Any] | None = None  # Any: ATIF
    metadata: Mapping[str, Any] = field(default_factory=dict)


class HarnessError(Exception):
    """The program could not be set up or started: infrastructure, not the agent's work."""


class Harness(Protocol):
    """An agent program. One object serves many tasks at a time; it keeps no state of a task."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str | None: ...

    async def setup(self, sandbox: Sandbox) -> None:
        """Make sure that the program is in the box. HarnessError, with the way out, when it cannot be."""
        ...

    async def run(self, task: AgentTask, sandbox: Sandbox, endpoint: ModelEndpoint | None) -> HarnessResult:
        """Let the program work. Raises HarnessError, SandboxError; a program that fails is a result.

        `endpoint` is the host's; the harness calls `sandbox.connect` where the program runs inside.
        None for programs that ask no model (`oracle`, `nop`).
        """
        ...
