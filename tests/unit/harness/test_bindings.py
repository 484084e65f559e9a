"""What each binding hands to its program: seen by a stand-in that keeps it. tests/agents runs the real ones."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from castform.errors import ConfigError
from castform.harness import HarnessError, McpServer, load_harness

NAMES = [
    "mini-swe-agent",
    "aider",
    "smolagents",
    "openai-agents",
    "qwen-code",
    "opencode",
    "codex",
    "claude-code",
]
TASK = 'say "hi" to {model} and $HOME\n'
KEEP = """#!/bin/sh
printf '%s\\0' "$@" > args; env -0 > env; cat > input; pwd > place
for each in "$QWEN_HOME" "$OPENCODE_CONFIG_DIR" "$CODEX_HOME" "$CLAUDE_CONFIG_DIR"; do
  if [ -n "$each" ]; then cp -R "$each" config; fi
done
for word in "$@"; do case "$word" in --mcp-config=*) cp "${word#*=}" mcp.json;; --message-file=*|*/instruction.md) cp "${word#*=}" told;; esac; done
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    path = tmp_path / "stand-in"
    path.write_text(KEEP)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", NAMES)
async def test_a_program_gets_task_model_and_endpoint_and_no_key_in_its_arguments(
    name, box, make_task, endpoint, stand_in
):
    harness = load_harness(name, program=stand_in, env={"MORE": "{model}"})
    await harness.setup(box) if name not in ("smolagents", "openai-agents") else None
    task = make_task(TASK)
    done = await harness.run(task, box, endpoint)
    assert (done.status, harness.name) == ("finished", name), done.output

    async def kept(file):
        return (await box.read_file(f"{task.workdir}/{file}")).decode()

    arguments = (await kept("args")).split("\0")
    variables = dict(pair.split("=", 1) for pair in (await kept("env")).split("\0") if pair)
    inside = next((value for key, value in variables.items() if key.endswith("_API_KEY")), "sk-")
    told = [*arguments, await kept("input")]
    if "told" in (await box.exec(["ls"], cwd=task.workdir)).text:
        told.append(await kept("told"))
    assert any(TASK in text for text in told)
    assert inside != endpoint.api_key and not any(inside in word for word in arguments)
    assert any("tiny" in word for word in arguments) and variables["MORE"] == "tiny"
    assert any("127.0.0.1" in v for v in variables.values()) or name in ("opencode", "codex")
    assert int(variables["CASTFORM_DEADLINE"]) > 0


SERVERS = [
    McpServer(name="far", transport="streamable-http", url="http://mcp:1/mcp", headers={"X": "{y}"}),
    McpServer(name="near", transport="stdio", command="srv", args=("-v",)),
    McpServer(name="old", url="http://mcp:1/sse"),
]


def qwen(config: Path, mcp: Path):
    return json.loads((config / "settings.json").read_text())["mcpServers"]


def opencode(config: Path, mcp: Path):
    return json.loads((config / "opencode.json").read_text())["mcp"]


def codex(config: Path, mcp: Path):
    return tomllib.loads((config / "config.toml").read_text())["mcp_servers"]


def claude(config: Path, mcp: Path):
    return json.loads(mcp.read_text())["mcpServers"]


FORMS = {
    "qwen-code": (
        qwen,
        {"httpUrl": "http://mcp:1/mcp", "headers": {"X": "{y}"}},
        {"command": "srv", "args": ["-v"]},
        {"url": "http://mcp:1/sse"},
    ),
    "opencode": (
        opencode,
        {"type": "remote", "url": "http://mcp:1/mcp", "headers": {"X": "{y}"}, "enabled": True},
        {"type": "local", "command": ["srv", "-v"], "enabled": True},
        {"type": "remote", "url": "http://mcp:1/sse", "enabled": True},
    ),
    "codex": (
        codex,
        {"url": "http://mcp:1/mcp", "http_headers": {"X": "{y}"}},
        {"command": "srv", "args": ["-v"]},
        {"url": "http://mcp:1/sse"},
    ),
    "claude-code": (
        claude,
        {"type": "http", "url": "http://mcp:1/mcp", "headers": {"X": "{y}"}},
        {"type": "stdio", "command": "srv", "args": ["-v"]},
        {"type": "sse", "url": "http://mcp:1/sse"},
    ),
}


@pytest.mark.parametrize("name", FORMS)
async def test_servers_and_skills_of_the_task_are_in_the_agents_own_config(
    name, box, make_task, endpoint, stand_in, tmp_path
):
    skill = tmp_path / "skills" / "sorting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("how to sort")
    task = make_task(mcp_servers=SERVERS, skills_dir=str(tmp_path / "skills"))
    done = await load_harness(name, program=stand_in).run(task, box, endpoint)
    assert done.status == "finished", done.output
    read, *expected = FORMS[name]
    config = Path(task.workdir, "config")
    found = read(config, Path(task.workdir, "mcp.json"))
    assert [found["far"], found["near"], found["old"]] == expected
    assert await box.read_file(f"{config}/skills/sorting/SKILL.md") == b"how to sort"


@pytest.mark.parametrize("name", NAMES)
def test_options_are_checked_and_a_version_is_installed_as_said(name):
    harness = load_harness(name, version="1.2.3", install=True)
    assert harness.version == "1.2.3" and "1.2.3" in harness.section.installs[0]
    assert load_harness(name, install=False).section.installs == ()
    with pytest.raises(ConfigError, match="max_turns = 0"):
        load_harness(name, max_turns=0)


LIMITED = {"mini-swe-agent", "smolagents", "openai-agents", "qwen-code", "claude-code"}


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_of_turns_is_passed_on_or_refused(name):
    if name in LIMITED:
        assert any("17" in word for word in load_harness(name, max_turns=17).section.command)
        assert not any("{N}" in word for word in load_harness(name).section.command)
    else:
        with pytest.raises(ConfigError, match=f"{name} has no limit of turns"):
            load_harness(name, max_turns=17)


@pytest.mark.parametrize("name", ["smolagents", "openai-agents"])
async def test_a_library_is_looked_for_and_installed_in_the_python_that_was_named(name, box, tmp_path):
    with pytest.raises(ConfigError, match=f"{name} is a library, whose program takes no more arguments"):
        load_harness(name, args=["--fast"])
    python = tmp_path / "its own" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> "{python.parent}/asked"\n[ "$2" = pip ]\n')
    python.chmod(0o755)
    with pytest.raises(HarnessError, match="fails nevertheless"):
        await load_harness(name, program=str(python)).setup(box)
    looked, installed, again = (python.parent / "asked").read_text().splitlines()
    assert looked.startswith("-c import importlib") and again == looked
    assert installed.startswith("-m pip install")
