"""castform's own engines, rewards and hints, through the hooks that everybody uses.

Strings only: importing this imports neither torch nor benchmax.
"""

from __future__ import annotations

import errno

import pluggy

from castform.plugins.catalog import GROUP
from castform.plugins.specs import EngineSpec, HarnessSpec, RewardSpec, SandboxSpec, ToolSpec

hookimpl = pluggy.HookimplMarker(GROUP)

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space, or point CASTFORM_HOME at another disk",
    errno.EDQUOT: "the disk quota is used up: free some space, or point CASTFORM_HOME at another disk",
    errno.EADDRINUSE: "another program listens there already: choose another port or stop it",
    errno.EACCES: "check who owns that path, or point CASTFORM_HOME at a folder of yours",
    errno.EROFS: "that disk cannot be written to: point CASTFORM_HOME at another one",
    errno.EMFILE: "raise the limit on open files (ulimit -n) or set a smaller rl.max_concurrent_rollouts",
}


@hookimpl
def register_engines() -> list[EngineSpec]:
    return [
        EngineSpec(
            name="transformers",
            summary="In process with torch and transformers, on CPU or one GPU",
            factory="castform_trainer.engines.transformers:make_transformers_engine",
            requires=("train",),
        ),
        EngineSpec(
            name="vllm",
            summary="A vLLM server over HTTP, started by castform or joined by its URL",
            factory="castform_trainer.engines.vllm_start:make_vllm_engine",
            requires=("train",),
        ),
    ]


@hookimpl
def register_sandboxes() -> list[SandboxSpec]:
    return [
        SandboxSpec(
            name="process",
            summary="Programs of this machine with limits; unsafe: it isolates nothing",
            factory="castform.sandbox.process.provider:ProcessProvider",
        ),
    ]


@hookimpl
def register_harnesses() -> list[HarnessSpec]:
    here = "castform_harbor.harnesses"
    return [
        HarnessSpec(
            name="terminus-lite",
            summary="An agent loop of our own: the model is asked from here, its shell commands run in the box",
            factory=f"{here}.terminus_lite:make_terminus_lite",
            config=f"{here}.terminus_lite:TerminusLiteOptions",
        ),
        HarnessSpec(
            name="mini-swe-agent",
            summary="mini-swe-agent in the box, by chat completions",
            factory=f"{here}.mini_swe_agent:make_mini_swe_agent",
            config=f"{here}.binding:AgentOptions",
        ),
        HarnessSpec(
            name="aider",
            summary="aider in the box, by chat completions",
            factory=f"{here}.aider:make_aider",
            config=f"{here}.binding:AgentOptions",
        ),
        HarnessSpec(
            name="smolagents",
            summary="A smolagents ToolCallingAgent with a shell in the box, by chat completions",
            factory=f"{here}.libraries:make_smolagents",
            config=f"{here}.binding:AgentOptions",
        ),
        HarnessSpec(
            name="openai-agents",
            summary="An agent of the OpenAI Agents SDK with a shell in the box, by chat completions or responses",
            factory=f"{here}.libraries:make_openai_agents",
            config=f"{here}.libraries:OpenAIAgentsOptions",
        ),
        HarnessSpec(
            name="qwen-code",
            summary="qwen-code in the box, by chat completions",
            factory=f"{here}.qwen_code:make_qwen_code",
            config=f"{here}.binding:AgentOptions",
        ),
        HarnessSpec(
            name="opencode",
            summary="opencode in the box, by chat completions",
            factory=f"{here}.opencode:make_opencode",
            config=f"{here}.binding:AgentOptions",
        ),
        HarnessSpec(
            name="codex",
            summary="codex in the box, by the Responses API",
            factory=f"{here}.codex:make_codex",
            config=f"{here}.binding:AgentOptions",
        ),
        HarnessSpec(
            name="claude-code",
            summary="claude-code in the box, by the Anthropic Messages API",
            factory=f"{here}.claude_code:make_claude_code",
            config=f"{here}.binding:AgentOptions",
        ),
    ]


@hookimpl
def register_tools() -> list[ToolSpec]:
    return [
        ToolSpec(
            name="mcp",
            summary="The tools of an MCP server, by the command that starts it or by its URL",
            factory="benchmax.mcp:McpServer",
            requires=("mcp",),
        ),
    ]


@hookimpl
def register_rewards() -> list[RewardSpec]:
    return [
        RewardSpec(
            name="answer",
            summary="Whether the final answer is the right one, numbers by value",
            factory="castform.compose.rewards:score_answer",
        ),
        RewardSpec(
            name="overlap",
            summary="Share of the reference text that the answer contains",
            factory="benchmax.rewards:overlap_reward",
        ),
        RewardSpec(
            name="citation-precision",
            summary="Share of the [Source: id] citations that name a reference",
            factory="castform.compose.rewards:score_citation_precision",
        ),
        RewardSpec(
            name="citation-recall",
            summary="Share of the references that [Source: id] citations name",
            factory="castform.compose.rewards:score_citation_recall",
        ),
        RewardSpec(
            name="tool-efficiency",
            summary="Full marks for few tool calls, decaying with every further one",
            factory="benchmax.rewards:tool_call_efficiency",
        ),
    ]


@hookimpl
def explain_error(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno in _HINTS:
        return _HINTS[error.errno]
    if type(error).__name__ == "OutOfMemoryError":
        return (
            "the GPU's memory is used up: set a smaller optimizer.tokens_per_microbatch or engine.max_batch"
        )
    if isinstance(error, MemoryError):
        return "the memory is used up: set a smaller engine.max_batch or a smaller model"
    return None
