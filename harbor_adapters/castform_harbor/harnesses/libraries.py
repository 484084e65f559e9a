"""smolagents and the OpenAI Agents SDK: libraries, run by a small program that is written into the box."""

from __future__ import annotations

import shlex
from importlib.resources import files
from typing import Literal

from castform.errors import ConfigError
from castform.harness.command import CommandHarness
from castform_harbor.harnesses.binding import AgentOptions, make_binding

DEFAULT_TURNS = 50
OUT_OF_TURNS = {"status": "max_turns", "exit_codes": [53]}


class OpenAIAgentsOptions(AgentOptions):
    """Options of openai-agents."""

    api: Literal["chat", "responses"] = "chat"
    """Which of OpenAI's two APIs it calls."""


def make_smolagents(options: AgentOptions) -> CommandHarness:
    """Return the harness `smolagents`: a ToolCallingAgent with a shell."""
    return _make_library("smolagents", options, package="smolagents[openai]", module="smolagents", words=())


def make_openai_agents(options: OpenAIAgentsOptions) -> CommandHarness:
    """Return the harness `openai-agents`: an Agent with a shell."""
    return _make_library(
        "openai-agents", options, package="openai-agents", module="agents", words=(options.api,)
    )


def _make_library(
    name: str, options: AgentOptions, *, package: str, module: str, words: tuple[str, ...]
) -> CommandHarness:
    if options.args:
        raise ConfigError(
            f"{name} is a library, whose program takes no more arguments, and args is {list(options.args)}",
            hint="leave it out; a TOML with [harness] runs a program of your own (docs/harnesses.md)",
        )
    program = f"run_{name.replace('-', '_')}.py"
    text = files("castform_harbor.harnesses.programs").joinpath(program).read_text("utf-8")
    python = shlex.quote(options.program or "python3")
    return make_binding(
        name,
        options,
        program="python3",
        package=package,
        source="pip",
        turns=(),
        check=f"{python} -c 'import importlib.util as u, sys; sys.exit(u.find_spec(\"{module}\") is None)'",
        command=[
            f"{{run_dir}}/{program}",
            "{instruction_file}",
            "{model}",
            str(options.max_turns or DEFAULT_TURNS),
            *words,
        ],
        env={"OPENAI_BASE_URL": "{base_url}", "OPENAI_API_KEY": "{api_key}"},
        files={f"{{run_dir}}/{program}": {"content": text, "literal": True}},
        status=[OUT_OF_TURNS],
    )
