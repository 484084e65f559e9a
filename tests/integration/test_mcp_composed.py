"""An MCP server in a TOML: `castform/mcp` gives its tools to a composed environment."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import RolloutRequest, StaticBearerAuth
from benchmax.testing import ChatServer, function_call
from castform.errors import CastformError
from castform.plugins.environments import load_environment

pytest.importorskip("mcp_types", reason="needs the extra castform[mcp]")

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests" / "unit" / "benchmax" / "mcp" / "plain_server.py"
TOML = """
[environment]
dataset = [{{ question = "Say hi.", answer = "hi" }}, {{ question = "Say ho.", answer = "ho" }}]
prompt = "{{question}}"
rewards = ["castform/answer"]

[[environment.tools]]
id = "castform/mcp"
args = {args}
"""


def write_toml(folder: Path, **args: Any) -> str:
    inline = ", ".join(f"{name} = {json.dumps(value)}" for name, value in args.items())
    path = folder / "mix.toml"
    path.write_text(TOML.format(args=f"{{ {inline} }}"), encoding="utf-8")
    return str(path)


async def test_a_composed_environment_uses_a_server_that_its_toml_names(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-E", str(SERVER)]
    loaded = load_environment(write_toml(tmp_path, command=command, only=["echo"], prefix="plain_"))
    environment = loaded.environment
    dataset = await environment.create_dataset("train", loaded.base_dir)
    call = function_call("1", "plain_echo", {"text": "hi"})
    async with ChatServer([{"tool_calls": [call]}, {"content": "hi"}]) as chat:
        request = RolloutRequest("r", dataset[0], "m", chat.base_url, StaticBearerAuth("k"))
        outcome = (await environment.run_group([request]))["r"]
        told = chat.requests[-1].body["messages"][-1]
        offered = [tool["function"]["name"] for tool in chat.requests[0].body["tools"]]
        await environment.aclose()
    assert (told["role"], told["content"]) == ("tool", "hi") and offered == ["plain_echo"]
    assert outcome.termination_reason == "finished" and outcome.rewards == {
        "castform/answer": float(dataset[0].payload["answer"] == "hi")
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"command": "a", "scope": "all"}, "scope must be"),
        ({"comand": "a"}, "comand"),
        ({}, "a command or a url"),
    ],
)
def test_settings_that_are_wrong_are_named_before_anything_runs(
    tmp_path: Path, args: dict[str, Any], words: str
) -> None:
    with pytest.raises(CastformError, match=words):
        load_environment(write_toml(tmp_path, **args))


def test_the_toml_of_the_page_on_tools_loads(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"^```toml\n(.*?)^```$", (ROOT / "docs" / "tools.md").read_text(encoding="utf-8"), re.M | re.S
    )
    (tmp_path / "page.toml").write_text(block, encoding="utf-8")
    (source,) = load_environment(str(tmp_path / "page.toml")).environment.tools
    assert source.command == ("uvx", "mcp-server-time", "--local-timezone", "UTC") and source.only == [
        "get_current_time"
    ]
