"""qwen-code: chat completions, streamed, with the program's own tools."""

from __future__ import annotations

from collections.abc import Mapping

from castform.harness.command import CommandHarness
from castform.harness.contract import AgentTask
from castform.harness.launch import Extras
from castform_harbor.harnesses.binding import AgentOptions, copy_skills, make_binding
from castform_harbor.harnesses.mcp_forms import write_qwen_servers

SETTINGS = "{run_dir}/qwen/settings.json"


def make_qwen_code(options: AgentOptions) -> CommandHarness:
    """Return the harness `qwen-code`."""
    return make_binding(
        "qwen-code",
        options,
        program="qwen",
        package="@qwen-code/qwen-code",
        source="npm",
        command=[
            "--approval-mode=yolo",
            "--auth-type=openai",
            "--model={model}",
            "--output-format=text",
        ],
        turns=["--max-session-turns={N}"],
        stdin="{instruction}",
        env={
            "QWEN_HOME": "{run_dir}/qwen",
            "QWEN_RUNTIME_DIR": "{run_dir}/qwen",
            "OPENAI_BASE_URL": "{base_url}",
            "OPENAI_API_KEY": "{api_key}",
            "OPENAI_MODEL": "{model}",
            "QWEN_CODE_NO_RELAUNCH": "1",
            "NO_COLOR": "1",
        },
        files={
            SETTINGS: {
                "content": {
                    "general": {
                        "disableAutoUpdate": True,
                        "disableUpdateNag": True,
                        "enableAutoUpdate": False,
                    },
                    "privacy": {"usageStatisticsEnabled": False},
                    "telemetry": {"enabled": False},
                    # or it asks the model for notes of its own when the work is done
                    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
                    "security": {"auth": {"selectedType": "openai"}},
                }
            }
        },
        prepare=copy_skills("{run_dir}/qwen/skills"),
        status=[{"status": "max_turns", "exit_codes": [53]}],
        extend=_add_servers,
    )


def _add_servers(task: AgentTask, values: Mapping[str, object]) -> Extras:
    servers = write_qwen_servers(task.mcp_servers)
    return Extras(files={SETTINGS: {"mcpServers": servers}} if servers else {})
