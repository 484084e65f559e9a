"""aider: chat completions through LiteLLM, edits as text instead of tools."""

from __future__ import annotations

from castform.harness.command import CommandHarness
from castform_harbor.harnesses.binding import AgentOptions, make_binding

PRICES = {
    "max_input_tokens": 131_072,
    "max_output_tokens": 131_072,
    "input_cost_per_token": 0.0,
    "output_cost_per_token": 0.0,
}
"""Said here, or it would look them up on the network. What really fits, the endpoint says."""


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
            "--config={run_dir}/aider.conf.yml",
            "--model-metadata-file={run_dir}/aider.models.json",
            "--input-history-file={run_dir}/aider.input",
            "--chat-history-file={log_dir}/aider.history.md",
        ],
        env={
            "OPENAI_API_BASE": "{base_url}",
            "OPENAI_API_KEY": "{api_key}",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # nothing is fetched
            "AIDER_ANALYTICS": "false",
        },
        files={
            "{run_dir}/aider.conf.yml": {"content": "", "format": "text"},
            "{run_dir}/aider.models.json": {
                "content": {"openai/{model}": {"litellm_provider": "openai", "mode": "chat", **PRICES}}
            },
        },
        # where there is no repository it would make one, and a .gitignore
        prepare="git rev-parse >/dev/null 2>&1 || echo 'git: false' > {run_dir}/aider.conf.yml",
        status=[{"status": "context_exceeded", "exit_codes": [0], "output": "context_budget_exceeded"}],
    )
