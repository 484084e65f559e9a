"""Real agent programs make a file by the tool calls that the engine is told to say.

What the engine saw and said is recorded whole, in the dialect that each program speaks, and a
second turn continues the first one's tokens.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from castform.harness import McpServer, load_harness

pytestmark = pytest.mark.agents
TASK = "Create the file hello.txt in this folder. It has to hold the word hello."
WRITE = "echo hello > hello.txt"


@dataclass(frozen=True, kw_only=True)
class Agent:
    """How to get a program, and what to say to it."""

    source: str
    packages: tuple[str, ...]
    tool: tuple[str, dict[str, object]]
    """The call that makes the file."""
    end: tuple[str, dict[str, object]] | str = "It is there."
    dialect: str = "chat"
    splices: tuple[str, ...] = ("first", "spliced")
    options: tuple[tuple[str, object], ...] = ()
    slow: bool = False
    """Left out unless CASTFORM_AGENTS=all: takes minutes to install."""


AGENTS = {
    "openai-agents": Agent(source="pip", packages=("openai-agents",), tool=("bash", {"command": WRITE})),
    "openai-agents-responses": Agent(
        source="pip",
        packages=("openai-agents",),
        tool=("bash", {"command": WRITE}),
        dialect="responses",
        options=(("api", "responses"),),
    ),
    "qwen-code": Agent(
        source="npm",
        packages=("@qwen-code/qwen-code",),
        tool=("run_shell_command", {"command": WRITE, "description": "write", "is_background": False}),
    ),
    "opencode": Agent(
        source="npm", packages=("opencode-ai",), tool=("bash", {"command": WRITE, "description": "write"})
    ),
    "codex": Agent(
        source="npm", packages=("@openai/codex",), tool=("exec_command", {"cmd": WRITE}), dialect="responses"
    ),
    "claude-code": Agent(
        source="npm",
        packages=("@anthropic-ai/claude-code",),
        tool=("Bash", {"command": WRITE}),
        dialect="anthropic",
    ),
    "smolagents": Agent(
        source="pip",
        packages=("smolagents[openai]",),
        tool=("bash", {"command": WRITE}),
        end=("final_answer", {"answer": "It is there."}),
        splices=("first", "forked"),  # it writes earlier calls down in words of its own
        slow=True,
    ),
    "mini-swe-agent": Agent(
        source="pip",
        packages=("mini-swe-agent",),
        tool=("bash", {"command": WRITE}),
        end=("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}),
        slow=True,
    ),
    "aider": Agent(
        source="pip",
        packages=("aider-chat",),
        tool=("", {}),
        end="hello.txt\n```\nhello\n```\n",
        splices=("first",),
        slow=True,
    ),
}


QUICK = [name for name, agent in AGENTS.items() if not agent.slow]
ALL = list(AGENTS) if os.environ.get("CASTFORM_AGENTS") == "all" else QUICK
"""The slow ones only where they are asked for."""


@pytest.mark.parametrize("name", ALL)
async def test_an_agent_makes_a_file_and_all_its_tokens_are_recorded(
    name, make_stage, install, call_tool, check_recorded
):
    agent = AGENTS[name]
    place = install(name.removesuffix("-responses"), agent.source, agent.packages)

    def answer(prompt: str, turn: int) -> str:
        said = agent.tool if turn == 0 and agent.tool[0] else agent.end
        return said if isinstance(said, str) else f"I go on.\n{call_tool(said[0], **said[1])}"

    stage = await make_stage(answer, path=place)
    options = dict(agent.options)
    if name.startswith(("openai-agents", "smolagents")):
        options["program"] = f"{place}/python"
    harness = load_harness(name.removesuffix("-responses"), install=False, **options)
    result, calls = await stage.perform(harness, stage.make_task(TASK))
    assert result.status == "finished", result.output
    assert await stage.read("hello.txt") == "hello\n"
    check_recorded(calls)
    assert {call.dialect for call in calls} == {agent.dialect}
    assert tuple(call.splice for call in calls) == agent.splices


@pytest.mark.parametrize(
    "name", [name for name in QUICK if name != "opencode"]
)  # that one tries for a minute
async def test_an_agent_whose_prompt_no_longer_fits_says_so(name, make_stage, install):
    agent = AGENTS[name]
    place = install(name.removesuffix("-responses"), agent.source, agent.packages)
    stage = await make_stage(lambda prompt, turn: "never said", path=place)
    options = dict(agent.options)
    if name.startswith("openai-agents"):
        options["program"] = f"{place}/python"
    harness = load_harness(name.removesuffix("-responses"), install=False, **options)
    result, calls = await stage.perform(harness, stage.make_task(TASK), max_context_tokens=50)
    assert (result.status, calls) == ("context_exceeded", []), result.output


@pytest.mark.parametrize("name", ["claude-code", "codex", "qwen-code"])
async def test_servers_and_skills_of_the_task_are_offered_to_the_model(name, make_stage, install, tmp_path):
    agent = AGENTS[name]
    skill = tmp_path / "skills" / "sorting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sorting\ndescription: how to sort plums\n---\nUse sort.\n")
    server = McpServer(
        name="near",
        transport="stdio",
        command=sys.executable,
        args=(str(Path(__file__).with_name("shout.py")),),
    )
    place = install(name, agent.source, agent.packages)
    stage = await make_stage(lambda prompt, turn: "I have seen it.", path=place)
    task = stage.make_task(TASK, mcp_servers=[server], skills_dir=str(tmp_path / "skills"))
    result, calls = await stage.perform(load_harness(name, install=False), task)
    assert result.status == "finished" and len(calls) == 1, result.output
    assert "shout_it_out" in stage.prompts[0] and "how to sort plums" in stage.prompts[0]


@pytest.mark.bubblewrap
async def test_an_agent_in_a_box_without_network_reaches_its_model_and_nothing_else(
    make_stage, install, call_tool, check_recorded
):
    name = "qwen-code"
    agent = AGENTS[name]
    place = Path(install(name, agent.source, agent.packages))
    look = "node -e 'fetch(`http://1.1.1.1`).catch(e => console.log(e.cause.code))' > net.txt"

    def answer(prompt: str, turn: int) -> str:
        said = {**agent.tool[1], "command": f"{WRITE}; {look}"}
        return call_tool(agent.tool[0], **said) if turn == 0 else "It is there."

    stage = await make_stage(answer, path="/opt/agent/.bin", sandbox="bubblewrap")
    await stage.box.upload(place.parent, "/opt/agent")
    harness = load_harness(name, install=False)
    result, calls = await stage.perform(harness, stage.make_task(TASK))
    assert result.status == "finished", result.output
    assert await stage.read("hello.txt") == "hello\n"
    assert (await stage.read("net.txt")).strip() == "ENETUNREACH"
    check_recorded(calls)


@pytest.mark.parametrize(
    "sandbox",
    [
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ],
)
async def test_a_library_that_was_copied_into_a_box_without_network_works_there(
    sandbox, make_stage, install, call_tool, check_recorded, leave_out
):
    agent = AGENTS["openai-agents"]
    place = Path(install("openai-agents", agent.source, agent.packages)).parent
    look = "python3 -c 'import urllib.request as r; r.urlopen(\"http://1.1.1.1\")' 2>&1 | tail -n 1 > net.txt"
    stage = await make_stage(
        lambda prompt, turn: call_tool("bash", command=f"{WRITE}; {look}") if turn == 0 else "It is there.",
        path="/opt/agent/bin",
        sandbox=sandbox,
    )
    version = await stage.box.exec(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    packages = place / "lib" / f"python{version.text.strip()}" / "site-packages"
    if not packages.is_dir():
        leave_out(f"the box has Python {version.text.strip()}, for which nothing was installed")
    await stage.box.upload(packages, "/opt/agent")
    harness = load_harness("openai-agents", install=False, env={"PYTHONPATH": "/opt/agent"})
    result, calls = await stage.perform(harness, stage.make_task(TASK))
    assert result.status == "finished", result.output
    assert await stage.read("hello.txt") == "hello\n"
    assert "Network is unreachable" in await stage.read("net.txt")
    check_recorded(calls)
