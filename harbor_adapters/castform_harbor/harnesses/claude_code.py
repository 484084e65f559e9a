"""claude-code: the Anthropic Messages API, streamed."""

from __future__ import annotations

from castform.harness.command import CommandHarness
from castform_harbor.harnesses.binding import AgentOptions, copy_skills, make_binding

ALIASES = (
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
)
"""Whatever the program asks for, it gets the one model."""


def make_claude_code(options: AgentOptions) -> CommandHarness:
    """Return the harness `claude-code`."""
    return make_binding(
        "claude-code",
        options,
        program="claude",
        package="@anthropic-ai/claude-code",
        source="npm",
        command=[
            "--print",
            "--verbose",
            "--output-format=stream-json",
            "--dangerously-skip-permissions",
            "--model={model}",
            "--strict-mcp-config",
            "--mcp-config={mcp_config_file}",
        ],
        turns=["--max-turns", "{N}"],
        stdin="{instruction}",
        env={
            "ANTHROPIC_BASE_URL": "{root_url}",
            "ANTHROPIC_API_KEY": "{api_key}",
            "ANTHROPIC_AUTH_TOKEN": "{api_key}",
            **dict.fromkeys(ALIASES, "{model}"),
            "CLAUDE_CONFIG_DIR": "{run_dir}/claude",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # root may skip the permissions
        },
        prepare=copy_skills("{run_dir}/claude/skills"),
        status=[
            {"status": "max_turns", "output": '"subtype":"error_max_turns"', "exit_codes": [0, 1]},
            {"status": "context_exceeded", "output": "Prompt is too long"},
        ],
    )
