"""opencode: chat completions, streamed, by a provider of its configuration."""

from __future__ import annotations

from collections.abc import Mapping

from castform.harness.command import CommandHarness
from castform.harness.contract import AgentTask
from castform.harness.launch import Extras
from castform_harbor.harnesses.binding import AgentOptions, copy_skills, make_binding
from castform_harbor.harnesses.mcp_forms import write_opencode_servers

CONFIG = "{run_dir}/opencode/opencode.json"


def make_opencode(options: AgentOptions) -> CommandHarness:
    """Return the harness `opencode`."""
    return make_binding(
        "opencode",
        options,
        program="opencode",
        package="opencode-ai",
        source="npm",
        command=["run", "--model=castform/{model}", "--title=task", "--auto"],
        stdin="{instruction}",
        env={
            "OPENCODE_CONFIG": CONFIG,
            "OPENCODE_CONFIG_DIR": "{run_dir}/opencode",
            "XDG_CONFIG_HOME": "{run_dir}/config",
            "XDG_DATA_HOME": "{run_dir}/data",
            "XDG_STATE_HOME": "{run_dir}/state",
            "XDG_CACHE_HOME": "{run_dir}/cache",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_SHARE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "NO_COLOR": "1",
        },
        files={
            CONFIG: {
                "content": {
                    "$schema": "https://opencode.ai/config.json",
                    "model": "castform/{model}",
                    "small_model": "castform/{model}",
                    "autoupdate": False,
                    "share": "disabled",
                    "provider": {
                        "castform": {
                            "npm": "@ai-sdk/openai-compatible",
                            "name": "castform",
                            "options": {"baseURL": "{base_url}", "apiKey": "{api_key}"},
                            "models": {"{model}": {"name": "{model}", "tool_call": True}},
                        }
                    },
                    "permission": {"*": "allow"},
                }
            }
        },
        prepare=copy_skills("{run_dir}/opencode/skills"),
        extend=_add_servers,
    )


def _add_servers(task: AgentTask, values: Mapping[str, object]) -> Extras:
    servers = write_opencode_servers(task.mcp_servers)
    return Extras(files={CONFIG: {"mcp": servers}} if servers else {})
