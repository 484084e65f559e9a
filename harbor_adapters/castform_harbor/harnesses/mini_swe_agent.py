"""mini-swe-agent: chat completions through LiteLLM, one `bash` tool."""

from __future__ import annotations

from castform.harness.command import CommandHarness
from castform_harbor.harnesses.binding import AgentOptions, make_binding


def make_mini_swe_agent(options: AgentOptions) -> CommandHarness:
    """Return the harness `mini-swe-agent`."""
    return make_binding(
        "mini-swe-agent",
        options,
        program="mini",
        package="mini-swe-agent",
        source="pip",
        command=[
            "--yolo",
            "--exit-immediately",
            "--cost-limit=0",
            "--model=openai/{model}",
            "--task={instruction}",
            "--output={log_dir}/mini-swe-agent.trajectory.json",
            "--config=mini.yaml",
            "--config=agent.mode=yolo",
        ],
        turns=["--config=agent.step_limit={N}"],
        env={
            "MSWEA_CONFIGURED": "true",  # no questions at the first start
            "MSWEA_GLOBAL_CONFIG_DIR": "{run_dir}/mini-swe-agent",
            "MSWEA_COST_TRACKING": "ignore_errors",  # the model has no price
            "MSWEA_SILENT_STARTUP": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # nothing is fetched
            "OPENAI_BASE_URL": "{base_url}",
            "OPENAI_API_KEY": "{api_key}",
        },
    )
