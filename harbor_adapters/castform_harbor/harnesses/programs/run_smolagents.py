"""Let a smolagents ToolCallingAgent with one shell tool work on the task in a file.

    python3 run_smolagents.py INSTRUCTION_FILE MODEL MAX_TURNS

Endpoint and key come from OPENAI_BASE_URL and OPENAI_API_KEY. Exit code 53: the turns were used up.
"""

import os
import subprocess
import sys
from pathlib import Path

from smolagents import OpenAIServerModel, Tool, ToolCallingAgent  # type: ignore[import-not-found,unused-ignore]

OUT_OF_TURNS = 53


class Shell(Tool):  # type: ignore[misc,unused-ignore]  # the library is not installed here
    name = "bash"
    description = "Run a bash command and return what it prints, with its exit code."
    inputs = {"command": {"type": "string", "description": "the command"}}  # noqa: RUF012 - the library's way
    output_type = "string"

    def forward(self, command: str) -> str:
        try:
            done = subprocess.run(
                ["bash", "-c", command], capture_output=True, timeout=120, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return "[killed after 120 s]"
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        return f"{text[-10_000:]}\n[exit code {done.returncode}]"


def main() -> int:
    instruction, model_name, max_turns = Path(sys.argv[1]).read_text("utf-8"), sys.argv[2], int(sys.argv[3])
    model = OpenAIServerModel(
        model_id=model_name,
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        tool_choice="auto",  # a forced choice is none of the model's own
    )
    agent = ToolCallingAgent(tools=[Shell()], model=model, max_steps=max_turns)
    result = agent.run(instruction, return_full_result=True)
    return OUT_OF_TURNS if result.state == "max_steps_error" else 0


if __name__ == "__main__":
    sys.exit(main())
