"""A probe that calls every tool over and over, and one that does not exist, and then says nothing."""

from __future__ import annotations

from castform.probes.probe import Probe
from castform.scripted_replies import Answer, Reply, ScriptedRequest, ToolUse

CALLS_A_TURN = 8
TURNS = 6
"""Then it gives up with an empty answer, for environments without a limit of their own."""
UNKNOWN_TOOL = "no_such_tool"
SPAM_EXAMPLES = 4


def call_every_tool(request: ScriptedRequest) -> Answer:
    """A script that calls each tool that is offered, and one that is not, and at last gives up."""
    if request.index >= TURNS:
        return ""
    offered = [tool["function"]["name"] for tool in request.body.get("tools") or () if "function" in tool]
    names = [*offered, UNKNOWN_TOOL]
    return Reply(
        tool_calls=[ToolUse(name=names[i % len(names)]) for i in range(max(CALLS_A_TURN, len(names)))]
    )


PROBES = (
    Probe(
        name="tool_spam",
        what="tool calls without end, and no answer",
        make=lambda context: call_every_tool,
        max_examples=SPAM_EXAMPLES,
    ),
)
