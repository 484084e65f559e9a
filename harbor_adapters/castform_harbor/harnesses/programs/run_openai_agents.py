"""Let an agent of the OpenAI Agents SDK with one shell tool work on the task in a file.

    python3 run_openai_agents.py INSTRUCTION_FILE MODEL MAX_TURNS chat|responses

Endpoint and key come from OPENAI_BASE_URL and OPENAI_API_KEY. Exit code 53: the turns were used up.
"""

import subprocess
import sys
from pathlib import Path

from agents import (  # type: ignore[import-not-found,unused-ignore]
    Agent,
    MaxTurnsExceeded,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

OUT_OF_TURNS = 53


@function_tool  # type: ignore[untyped-decorator,unused-ignore]  # the library is not installed here
def bash(command: str) -> str:
    """Run a bash command and return what it prints, with its exit code.

    Args:
        command: the command
    """
    try:
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, timeout=120, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return "[killed after 120 s]"
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    return f"{text[-10_000:]}\n[exit code {done.returncode}]"


def main() -> int:
    instruction, model_name, max_turns, api = Path(sys.argv[1]).read_text("utf-8"), *sys.argv[2:5]
    kinds = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
    set_tracing_disabled(True)
    agent = Agent(
        name="agent",
        instructions="Work on the task with the bash tool. Answer in a sentence when it is done.",
        tools=[bash],
        model=kinds[api](model=model_name, openai_client=AsyncOpenAI()),
    )
    try:
        result = Runner.run_sync(agent, instruction, max_turns=int(max_turns))
    except MaxTurnsExceeded:
        return OUT_OF_TURNS
    sys.stdout.write(f"{result.final_output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
