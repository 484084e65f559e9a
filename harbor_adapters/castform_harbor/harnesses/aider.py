"""aider: chat completions through LiteLLM, edits as text instead of tools."""

from __future__ import annotations

from castform.harness.command import CommandHarness
from castform_harbor.harnesses.binding import AgentOptions, make_binding


def make_aider(options: AgentOptions) -> CommandHarness:
    """Return the harness `aider`. It knows neither MCP servers nor skills."""
    return make_binding(
        "aider",
        options,
        program="aider",
        package="aider-chat",
        source="pip",
        command=[
            "--yes-always",
            "--message-file={instruction_file}",
            "--model=openai/{model}",
            "--weak-model=openai/{model}",
            "--no-show-model-warnings",
            "--no-check-update",
            "--no-show-release-notes",
            "--analytics-disable",
            "--no-pretty",
            "--no-fancy-input",
            "--no-stream",
            "--no-gitignore",
            "--no-auto-commits",
            "--no-dirty-commits",
            "--no-detect-urls",
            "--disable-playwright",
            "--input-history-file={run_dir}/aider.input",
            "--chat-history-file={log_dir}/aider.history.md",
        ],
        env={
            "OPENAI_API_BASE": "{base_url}",
            "OPENAI_API_KEY": "{api_key}",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # nothing is fetched
            "AIDER_ANALYTICS": "false",
        },
    )
