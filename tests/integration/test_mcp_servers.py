"""Real MCP servers, of PyPI and npm, over stdio and HTTP, in rollouts."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from benchmax.envs import BaseEnv, Dataset, Example, RolloutRequest, StaticBearerAuth
from benchmax.testing import ChatServer, function_call

pytest.importorskip("mcp_types", reason="needs the extra castform[mcp]")
from benchmax.mcp import McpServer

pytestmark = pytest.mark.installs
EXAMPLE: Example[Any] = Example("e", {"prompt_messages": [{"role": "user", "content": "go"}]})


class Env(BaseEnv):
    max_turns = 3

    def __init__(self, *servers: McpServer) -> None:
        super().__init__()
        self.tools = servers

    async def create_dataset(self, split: Any, base_dir: Any, *, max_examples: Any = None) -> Dataset[Any]:
        return Dataset([EXAMPLE])

    async def compute_reward(self, rollout: Any) -> dict[str, float]:
        return {"turns": float(len(rollout.messages))}


async def answers_of(
    *servers: McpServer, calls: list[tuple[str, dict[str, Any]]], size: int = 1
) -> list[Any]:
    """Let the model make the calls in one turn of each rollout; return what it read in the last of them."""
    turn = {
        "tool_calls": [function_call(f"c{i}", name, arguments) for i, (name, arguments) in enumerate(calls)]
    }

    async def script(request: Any) -> Any:
        return {"content": "done"} if request.body["messages"][-1]["role"] == "tool" else turn

    env = Env(*servers)
    async with ChatServer(script) as chat:
        requests = [
            RolloutRequest(f"r{i}", EXAMPLE, "m", chat.base_url, StaticBearerAuth("k")) for i in range(size)
        ]
        outcomes = await env.run_group(requests)
        await env.aclose()
    assert {outcome.error for outcome in outcomes.values()} == {None}
    return [m["content"] for m in chat.requests[-1].body["messages"] if m["role"] == "tool"]


@pytest.fixture(scope="module")
def time_server(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("time")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    install = [str(folder / "bin" / "pip"), "install", "-q", "--no-compile", "mcp-server-time"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return [str(folder / "bin" / "mcp-server-time"), "--local-timezone", "UTC"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("everything")
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
    done = subprocess.run(
        [*install, "@modelcontextprotocol/server-everything"], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return str(folder / "node_modules" / ".bin" / "mcp-server-everything")


async def test_the_time_server_of_pypi_in_four_rollouts(time_server: list[str]) -> None:
    arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    converted, refused, missing = await answers_of(
        McpServer(command=time_server),
        calls=[
            ("convert_time", arguments),
            ("get_current_time", {"timezone": "Nowhere"}),
            ("get_current_time", {}),
        ],
        size=4,
    )
    assert "T21:00:00+09:00" in converted and '"time_difference": "+9.0h"' in converted
    assert refused.startswith("Error: ") and "Nowhere" in refused
    assert (
        missing
        == "Invalid arguments for tool 'get_current_time': 'timezone' is missing. Its parameters: 'timezone'."
    )


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"message": "hé"}),
    ("get-sum", {"a": 1, "b": 2}),
    ("get-sum", {"a": "1"}),
    ("get-structured-content", {"location": "New York"}),
    ("get-tiny-image", {}),
]


async def test_the_everything_server_of_npm_over_stdio(everything: str) -> None:
    server = McpServer(command=[everything, "stdio"], images=True)
    echo, total, wrong, structured, image = await answers_of(server, calls=CALLS)
    assert echo == "Echo: hé" and "3" in total
    assert "'a' must be number, not \"1\"; " not in wrong and wrong.startswith(
        "Invalid arguments for tool 'get-sum': "
    )
    assert '"temperature"' in structured
    assert [part["type"] for part in image] == ["text", "image_url", "text"]
    assert image[1]["image_url"]["url"].startswith("data:image/png;base64,")


@pytest.fixture
async def everything_url(everything: str) -> AsyncIterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        everything,
        "streamableHttp",
        env={"PATH": os.environ["PATH"], "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while b"listening" not in (line := await process.stderr.readline()):
            assert line, "the server ended before it listened"
    yield f"http://127.0.0.1:{port}/mcp"
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_the_everything_server_over_http_shared_by_rollouts(everything_url: str) -> None:
    server = McpServer(url=everything_url, scope="shared", prefix="all_")
    calls = [(f"all_{name}", arguments) for name, arguments in CALLS]
    echo, _, _, _, image = await answers_of(server, calls=calls, size=3)
    assert echo == "Echo: hé"
    assert "\n[image/png, " in image and image.count("bytes]") == 1
