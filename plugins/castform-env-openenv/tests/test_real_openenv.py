"""Against the real thing: environments written with openenv's classes, served by its own server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from castform_env_openenv.config import ServerConfig
from castform_env_openenv.environment import OpenEnv

from castform.testing import FakeModel, Reply, ScriptedRequest, ToolUse

SERVER = Path(__file__).with_name("real_server.py")
VERSIONS = {"openenv-core": "openenv-core==0.3.0", "openenv": "openenv==0.10.0"}
NEEDED = ("fastapi", "uvicorn", "websockets", "requests", "fastmcp>=3")
"""What its server imports. The rest of what it asks for (gradio, the Hub) is for other commands."""

pytestmark = pytest.mark.installs


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, dict[str, str]]]:
    """An interpreter and its environment variables, by version."""
    folder = tmp_path_factory.mktemp("openenv")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, capture_output=True)
    python = str(folder / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, *NEEDED], check=True, capture_output=True)
    found = {}
    for name, requirement in VERSIONS.items():
        target = folder / name
        subprocess.run(
            [*install, "--no-deps", "--target", str(target), requirement], check=True, capture_output=True
        )
        found[name] = (python, {"PYTHONPATH": str(target)})
    return found


def make(python: tuple[str, Mapping[str, str]], kind: str, sessions: int = 1, **config: Any) -> OpenEnv:
    interpreter, env = python
    command = [interpreter, str(SERVER), "{port}", kind, str(sessions)]
    settings = {"train": [{"seed": 42}], "eval": 1, "start_seconds": 110, "sessions": sessions, **config}
    return OpenEnv(ServerConfig(command=command, command_env=dict(env), **settings))


def guesses(*numbers: int) -> Any:
    def script(request: ScriptedRequest) -> Reply | str:
        if request.index >= len(numbers):
            return "done"
        return Reply(tool_calls=[ToolUse(name="step", arguments={"number": numbers[request.index]})])

    return script


async def run(environment: OpenEnv, script: Any, *, size: int = 1) -> Any:
    (example,) = await environment.create_dataset("train", Path(), max_examples=1)
    async with FakeModel(script) as model:
        group = await model.run_group(environment, example, size=size, timeout_seconds=120)
    return group.rollouts, model.requests


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_guessing_game_is_played_with_its_schema_as_a_tool(
    pythons: dict[str, tuple[str, dict[str, str]]], version: str
) -> None:
    environment = make(pythons[version], "guess", action="step", observation_field="hint")
    rollouts, requests = await run(environment, guesses(4, 400, 42), size=2)
    assert [r.error for r in rollouts] == [None, None]  # one after the other: the server has one session
    assert [r.rewards for r in rollouts] == [{"reward": pytest.approx(0.9)}] * 2
    (tool,) = requests[0].body["tools"]
    assert tool["function"]["parameters"]["properties"].keys() == {"number"}
    told = [m["content"] for m in requests[3].messages if m["role"] == "tool"]
    assert told[0] == "higher" and told[2] == "right\nThe episode is over."
    assert "100" in told[1]  # our check of the schema, or the server's
    rollouts, _ = await run(environment, guesses(13))
    assert rollouts[0].termination_reason == "tool_error" and "unlucky" in rollouts[0].error
    await environment.aclose()
    text = make(pythons[version], "guess", 3)
    rollouts, requests = await run(text, lambda request: ["fifty", "50", "42"][request.index], size=3)
    assert [r.rewards for r in rollouts] == [{"reward": pytest.approx(0.9)}] * 3
    assert "integer" in requests[-1].messages[3]["content"]
    await text.aclose()


async def test_the_tools_of_an_mcp_environment_are_the_model_s(
    pythons: dict[str, tuple[str, dict[str, str]]],
) -> None:
    environment = make(pythons["openenv-core"], "tools", action="tools")

    def script(request: ScriptedRequest) -> Reply | str:
        if request.index == 0:
            return Reply(tool_calls=[ToolUse(name="shout", arguments={"text": "hi"})])
        return "done"

    rollouts, requests = await run(environment, script)
    await environment.aclose()
    assert requests[0].body["tools"][0]["function"]["name"] == "shout"
    assert requests[1].messages[-1] == {
        "role": "tool",
        "tool_call_id": requests[1].messages[-1]["tool_call_id"],
        "content": "HI",
    }
    assert rollouts[0].rewards == {"reward": 0.0}
