"""codex: the Responses API, streamed."""

from __future__ import annotations

from collections.abc import Mapping

from castform.harness.command import CommandHarness
from castform.harness.contract import AgentTask
from castform.harness.launch import Extras
from castform_harbor.harnesses.binding import AgentOptions, copy_skills, make_binding
from castform_harbor.harnesses.mcp_forms import write_codex_servers

HOME = "{log_dir}/codex"
"""Not below a temporary folder, where it refuses to put its helper programs."""
CONFIG = HOME + "/config.toml"


def make_codex(options: AgentOptions) -> CommandHarness:
    """Return the harness `codex`. Its MCP client knows stdio and streamable HTTP, no SSE."""
    return make_binding(
        "codex",
        options,
        program="codex",
        package="@openai/codex",
        source="npm",
        command=[
            "exec",
            "--dangerously-bypass-approvals-and-sandbox",
            "--skip-git-repo-check",
            "--json",
            "--model={model}",
            "-",
        ],
        stdin="{instruction}",
        env={"CODEX_HOME": HOME, "CASTFORM_API_KEY": "{api_key}"},
        files={
            CONFIG: {
                "content": {
                    "model_provider": "castform",
                    "check_for_update_on_startup": False,
                    "web_search": "disabled",  # a tool of OpenAI's own servers
                    "model_providers": {
                        "castform": {
                            "name": "castform",
                            "base_url": "{base_url}",
                            "env_key": "CASTFORM_API_KEY",
                            "wire_api": "responses",
                        }
                    },
                    "analytics": {"enabled": False},
                }
            }
        },
        prepare=copy_skills(f"{HOME}/skills"),
        status=[
            {"status": "context_exceeded", "output": "ran out of room in the model's context window"},
        ],
        extend=_add_servers,
    )


def _add_servers(task: AgentTask, values: Mapping[str, object]) -> Extras:
    servers = write_codex_servers(task.mcp_servers)
    return Extras(files={CONFIG: {"mcp_servers": servers}} if servers else {})
