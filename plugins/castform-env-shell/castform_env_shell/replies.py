"""What a reply wants to be run, and what it is told of it."""

from __future__ import annotations

import re

from castform.sandbox.contract import ExecResult

DONE = "Done."
MOST_SHOWN = 600  # characters of output that go back to the model: the end of it
NOT_RUN = "not run: too long, or with a zero byte in it"
_LABELS = ("", "sh", "bash", "shell")
_BLOCK = re.compile(r"```[ \t]*+([^\s`]*+)[^\n`]*+\n(.*?)```", re.DOTALL)


def read_commands(reply: str) -> str | None:
    """Return the first fenced block of shell in a reply; None when it has none, or an empty one."""
    found = next((body for label, body in _BLOCK.findall(reply) if label.lower() in _LABELS), "")
    return found.strip("\n") if found.strip() else None


def write_block(commands: str) -> str:
    """Return commands as a reply has them."""
    return f"```sh\n{commands}\n```"


def describe_result(result: ExecResult) -> str:
    """Return what the model is told of its commands."""
    return _describe(f"exit code {result.exit_code}", result.text + result.error_text)


def describe_timeout(result: ExecResult, seconds: float) -> str:
    """Return what the model is told of commands that took too long."""
    return _describe(f"killed after {seconds:g} s", result.text + result.error_text)


def _describe(ending: str, output: str) -> str:
    output = output.strip()
    if len(output) > MOST_SHOWN:
        output = f"… {output[-MOST_SHOWN:]}"
    return f"{ending}\n{output}" if output else ending
