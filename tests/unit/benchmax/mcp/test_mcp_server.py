"""MCP servers as tools of a rollout: what they offer, how they fail, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="needs the extra castform[mcp]")

from aiohttp import web

from benchmax.envs import (
    BaseEnv,
    Dataset,
    Example,
    RolloutFailure,
    RolloutRequest,
    StaticBearerAuth,
    ToolSource,
)
from benchmax.envs.tool_faults import ArgumentFault
from benchmax.mcp import McpServer
from benchmax.mcp.process import spawn_server
from benchmax.mcp.results import make_names, make_parameters
from benchmax.testing import ChatServer, function_call

SERVER = Path(__file__).with_name("plain_server.py")
EXAMPLE: Example[Any] = Example("e", {"prompt_messages": [{"role": "user", "content": "go"}]})


def plain(mode: str = "well", *more: str, **settings: Any) -> McpServer:
    settings = {"start_timeout_seconds": 30, "name": "plain", **settings}
    return McpServer(command=[sys.executable, "-S", "-E", str(SERVER), mode, *more], **settings)


class Calls:
    """A server's tools by name."""

    def __init__(self, tools: Any) -> None:
        self.tools = {tool.name: tool for tool in tools}

    async def __call__(self, name: str, /, **arguments: Any) -> Any:
        return await self.tools[name].call(arguments)

    async def failure(self, name: str, /, **arguments: Any) -> str:
        with pytest.raises(RolloutFailure) as raised:
            await self(name, **arguments)
        assert raised.value.termination_reason == "tool_error"
        return raised.value.message


@asynccontextmanager
async def opened(server: McpServer, rollout_id: str = "r") -> AsyncIterator[Calls]:
    async with server.open(rollout_id, EXAMPLE) as tools:
        yield Calls(tools)


async def failure_of(server: McpServer) -> str:
    with pytest.raises(RolloutFailure) as raised:
        async with opened(server):
            raise AssertionError("it started")
    assert raised.value.termination_reason == "tool_error"
    return raised.value.message


async def is_gone(pid: int) -> bool:
    """Whether a process ends within a minute; a zombie that init has not fetched yet is gone."""
    for _ in range(6000):
        if not _runs(pid):
            return True
        await asyncio.sleep(0.01)
    return False


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # no /proc on this system, or gone just now
        return Path("/proc").exists() is False


# --- over stdio ------------------------------------------------------------------------------------


async def test_results_errors_and_refusals_reach_the_model_in_words(monkeypatch: Any) -> None:
    server = plain(env={"KEY": "mine"}, pass_env=["PLAIN_TEST_KEY"])
    monkeypatch.setenv("PLAIN_TEST_KEY", "passed")
    monkeypatch.setenv("PLAIN_TEST_SECRET", "kept")
    async with opened(server) as call:
        pid = int(await call("pid"))
        assert await call("echo", text="hé\nho") == "hé\nho"
        assert await call("echo", txt="x") == (
            "Invalid arguments for tool 'echo': 'text' is missing; 'txt' is not a parameter. Its parameters: 'text'."
        )
        assert await call("fail") == "Error: disk full"
        assert await call("refuse") == "Error: no such thing"
        assert await call("structured") == '{"degrees":21}'
        assert await call("picture") == (
            "a pixel\n[image/png, 8 bytes]\n[audio/wav, 3 bytes]\nlog: file:///log\ninside"
        )
        names = ("KEY", "PLAIN_TEST_KEY", "PLAIN_TEST_SECRET", "PATH")
        seen = [await call("env", name=name) for name in names]
        assert seen == ["mine", "passed", "unset", os.environ["PATH"]]
        assert call.tools["echo"].description == "Say it again."
        assert call.tools["files_read_it_2"].description == "Read"
        assert "odd' wrongly: ValidationError: 1 validation error" in await call.failure("odd")
        assert "is gone before the call of 'echo'" in await call.failure("echo", text="x")
    assert await is_gone(pid)


async def test_names_that_openai_does_not_take_are_mapped_and_arguments_may_be_called_anything() -> None:
    async with opened(plain(prefix="my-", only=["files/read it", "files.read_it", "pid"])) as call:
        assert list(call.tools) == ["my-files_read_it", "my-files_read_it_2", "my-pid"]
        assert await call("my-files_read_it", self="a", rollout_id="b") == (
            'files/read it{"rollout_id": "b", "self": "a"}'
        )
        assert await call("my-files_read_it_2") == "files.read_it{}"
    told = await failure_of(plain(only=["pid", "fly"]))
    assert told.startswith("MCP server 'plain' has no tool 'fly'; it has echo, files/read it, ")


async def test_images_are_parts_when_they_are_wanted() -> None:
    async with opened(plain(images=True, only=["picture"])) as call:
        assert (await call("picture"))[:2] == [
            {"type": "text", "text": "a pixel"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ]


async def test_a_server_that_dies_between_or_during_calls_is_named_with_its_exit_code_and_last_words() -> (
    None
):
    async with opened(plain()) as call:
        assert await call.failure("exit", code=5) == (
            "MCP server 'plain' went away during the call of 'exit' (exit code 5; its stderr ends: out of cheese)"
        )
    async with opened(plain()) as call:
        pid = int(await call("pid"))
        os.kill(pid, signal.SIGKILL)
        assert await is_gone(pid)
        told = await call.failure("echo", text="x")
        assert "MCP server 'plain'" in told and "killed by SIGKILL; its stderr is empty" in told


async def test_a_call_that_takes_too_long_is_told_while_the_server_still_answers(
    skip_seconds: Callable[[float], None],
) -> None:
    async with opened(plain(call_timeout_seconds=60.5)) as call:
        hanging = asyncio.create_task(call("hang"))
        assert await call("echo", text="beside it") == "beside it"  # read after the call that hangs
        skip_seconds(61)
        assert await hanging == "Tool 'hang' took longer than 60.5 seconds and was stopped."
        assert await call("echo", text="still here") == "still here"


async def test_a_server_that_answers_nothing_any_more_ends_the_rollout(
    skip_seconds: Callable[[float], None],
) -> None:
    async with opened(plain("deaf", call_timeout_seconds=60.5)) as call:
        pid = int(await call("pid"))
        hanging = asyncio.create_task(call.failure("hang"))
        while not hanging.done():  # the time of the call, then that of the ping
            await asyncio.sleep(0.01)
            skip_seconds(1)
        assert await hanging == (
            "MCP server 'plain' has not answered the call of 'hang' for 60.5 seconds, nor a ping after it "
            "(it was running; its stderr is empty)"
        )
    assert await is_gone(pid)


@pytest.mark.parametrize(
    ("mode", "seconds", "told"),
    [
        (
            "dies-early",
            30,
            "could not be started: MCPError: Connection closed (exit code 7; its stderr ends: no licence found)",
        ),
        ("no-start", 0.2, "was not ready after 0.2 seconds (it was running; its stderr is empty)"),
        ("garbage", 30, "it was running; its stdout has lines that are no messages, e.g. '########"),
    ],
)
async def test_a_server_that_does_not_start_is_typed(mode: str, seconds: float, told: str) -> None:
    message = await failure_of(plain(mode, start_timeout_seconds=seconds))
    assert message.startswith("MCP server 'plain' ") and told in message


async def test_a_command_that_is_not_there_is_typed() -> None:
    message = await failure_of(McpServer(command="no-such-program --port 1"))
    assert message.startswith("MCP server 'no-such-program' could not be started: FileNotFoundError: ")
    message = await failure_of(plain(cwd="/no/such/folder"))
    assert "could not be started: FileNotFoundError: " in message


async def test_a_long_answer_is_cut_and_one_without_end_is_typed() -> None:
    async with opened(plain(max_result_chars=100)) as call:
        tool = call.tools["flood"]
        assert await tool.call({"megabytes": 2}, max_chars=tool.max_result_chars) == (
            "x" * 100 + "\n[cut: the first 100 characters of 2,097,152 characters]"
        )
        told = await call.failure("flood", megabytes=40)
        assert (
            "went away during the call of 'flood' (it was running; it sent a line of more than 33,554,432 bytes"
            in told
        )


async def test_a_greeting_on_stdout_is_overlooked() -> None:
    async with opened(plain("banner")) as call:
        assert await call("echo", text="x") == "x"


async def test_what_a_server_started_is_killed_with_it(tmp_path: Path) -> None:
    async with opened(plain("crowd", str(tmp_path / "pid"))) as call:
        pid = int(await call("pid"))
    child = int((tmp_path / "pid").read_text())
    assert await is_gone(pid) and await is_gone(child)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="sessions are looked through on Linux")
async def test_what_a_server_started_in_other_sessions_is_killed_with_it(tmp_path: Path) -> None:
    async with opened(plain("apart", str(tmp_path / "pids"))):
        pids = [int(word) for word in (tmp_path / "pids").read_text().split()]
        assert len(pids) == 2 and all(map(_runs, pids))
    assert [await is_gone(pid) for pid in pids] == [True, True]
    message = await failure_of(plain("apart-dies", str(tmp_path / "pid")))
    assert "exit code 7" in message
    assert await is_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_server_that_is_just_ending_is_stopped_when_who_waits_for_it_is_cancelled(turns: int) -> None:
    silent = "import os, sys; os.close(1); sys.stdin.read()"
    process = await spawn_server([sys.executable, "-S", "-c", silent], env={}, cwd=None)
    done = asyncio.Event()

    async def leave() -> None:
        async with process.streams() as (incoming, _):
            assert [message async for message in incoming] == []  # until its stdout ends
            done.set()

    leaving = asyncio.create_task(leave())
    await done.wait()
    for _ in range(turns):
        await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert process.exited.is_set() and await is_gone(process.pid)


def _written(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


async def test_cancelling_a_rollout_in_a_call_or_while_it_starts_leaves_no_server(tmp_path: Path) -> None:
    in_call = asyncio.Event()
    pids: list[int] = []

    async def use(server: McpServer) -> None:
        async with opened(server) as call:
            pids.append(int(await call("pid")))
            in_call.set()
            await call("hang")

    task = asyncio.create_task(use(plain()))
    await in_call.wait()
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_gone(pids[0])

    server = plain("crowd-silent", str(tmp_path / "pid"))
    task = asyncio.create_task(use(server))
    for _ in range(3000):
        if _written(tmp_path / "pid"):
            break
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_gone(int((tmp_path / "pid").read_text()))


async def test_a_shared_server_serves_all_rollouts_and_is_started_again_once() -> None:
    server = plain(scope="shared")
    async with opened(server, "a") as first, opened(server, "b") as second:
        pids = {int(await call("pid")) for call in (first, second)}
        assert len(pids) == 1
        assert "exit code 3" in await first.failure("exit")
        again = int(await second("pid"))
        assert {again} != pids
    async with opened(server, "c") as third:
        assert int(await third("pid")) == again
        assert "exit code 3" in await third.failure("exit")
        assert await third.failure("pid") == "MCP server 'plain', which is shared, died 2 times"
    await server.aclose()
    async with opened(server, "d") as fourth:  # after aclose it begins anew
        pid = int(await fourth("pid"))
    await server.aclose()
    assert await is_gone(pid) and await is_gone(again)


async def test_why_a_shared_server_did_not_start_is_told_again_and_an_unset_key_is_no_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = McpServer(command="no-such-program", scope="shared")
    for _ in range(3):
        message = await failure_of(server)
        assert message.startswith("MCP server 'no-such-program' could not be started: FileNotFoundError: ")

    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    guarded = McpServer(url="http://127.0.0.1:9/mcp", token_env="NO_SUCH_KEY", scope="shared")
    for _ in range(3):
        assert (await failure_of(guarded)).endswith("the environment variable NO_SUCH_KEY is not set")


class Env(BaseEnv):
    max_turns = 3

    def __init__(self, server: McpServer) -> None:
        super().__init__()
        self.tools = (server,)
        self.told: dict[str, Any] = {}

    async def create_dataset(self, split: Any, base_dir: Any, *, max_examples: Any = None) -> Dataset[Any]:
        return Dataset([])

    async def compute_reward(self, rollout: Any) -> dict[str, float]:
        self.told[rollout.rollout_id] = [m["content"] for m in rollout.messages if m["role"] == "tool"]
        return {"x": 1.0}


async def run(env: Env, turn: Any, size: int) -> Any:
    async def script(request: Any) -> Any:
        return {"content": "done"} if request.body["messages"][-1]["role"] == "tool" else turn

    async with ChatServer(script) as chat:
        requests = [
            RolloutRequest(f"r{place}", EXAMPLE, "m", chat.base_url, StaticBearerAuth("k"))
            for place in range(size)
        ]
        outcomes = await env.run_group(requests)
        await env.aclose()
    return outcomes


async def test_thirty_two_rollouts_have_a_server_each_and_all_of_them_are_gone() -> None:
    env = Env(plain(only=["pid", "echo"], start_timeout_seconds=120))
    turn = {"tool_calls": [function_call("1", "pid"), function_call("2", "echo", {"text": "x"})]}
    outcomes = await run(env, turn, 32)
    assert {outcome.termination_reason for outcome in outcomes.values()} == {"finished"}
    pids = {int(told[0]) for told in env.told.values()}
    assert len(pids) == 32 and all(told[1] == "x" for told in env.told.values())
    assert all([await is_gone(pid) for pid in pids])


async def test_a_crash_in_one_rollout_is_its_own_tool_error() -> None:
    env = Env(plain(only=["exit"]))
    outcomes = await run(env, {"tool_calls": [function_call("1", "exit", {"code": 9})]}, 1)
    assert outcomes["r0"].termination_reason == "tool_error" and outcomes["r0"].rewards == {}
    assert "exit code 9; its stderr ends: out of cheese" in outcomes["r0"].error


# --- over HTTP -------------------------------------------------------------------------------------


class HttpServer:
    """A server over streamable HTTP that notes what it is asked and can be told to misbehave."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.status = 0
        self.hangs = False
        self.hanging = asyncio.Semaphore(0)
        """One for each request that is never answered."""
        self.url = ""
        self.sessions = 0

    async def post(self, request: web.Request) -> web.Response:
        message = await request.json()
        method = message["method"]
        session = request.headers.get("mcp-session-id", "")
        self.log.append(" ".join(filter(None, [method, session])))
        if self.status:
            return web.Response(status=self.status)
        if "id" not in message:
            return web.Response(status=202)
        if self.hangs:
            self.hanging.release()
            await asyncio.Event().wait()
        result: dict[str, Any] = {}
        headers = {}
        if method == "initialize":
            self.sessions += 1
            headers["mcp-session-id"] = f"s{self.sessions}"
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "h", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            words = f"{session} {request.headers.get('Authorization')} {request.headers.get('X-Team')}"
            result = {"content": [{"type": "text", "text": words}]}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)

    async def delete(self, request: web.Request) -> web.Response:
        self.log.append(f"end {request.headers['mcp-session-id']}")
        return web.Response()


@pytest.fixture
async def http() -> AsyncIterator[HttpServer]:
    server = HttpServer()
    app = web.Application()
    app.router.add_post("/mcp", server.post)
    app.router.add_delete("/mcp", server.delete)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/mcp"
    yield server
    await runner.cleanup()


async def test_each_rollout_has_a_session_over_http_with_headers_and_token_and_ends_it(
    http: HttpServer, monkeypatch: Any
) -> None:
    monkeypatch.setenv("WHO_TOKEN", "t0k")
    server = McpServer(url=http.url, headers={"X-Team": "blue"}, token_env="WHO_TOKEN")
    assert server.name == http.url.removeprefix("http://").removesuffix("/mcp")
    assert "blue" not in repr(server)
    async with opened(server) as first, opened(server) as second:
        assert [await call("who") for call in (first, second)] == ["s1 Bearer t0k blue", "s2 Bearer t0k blue"]
    assert http.log[-2:] == ["end s2", "end s1"]
    monkeypatch.delenv("WHO_TOKEN")
    assert "the environment variable WHO_TOKEN is not set" in await failure_of(server)


@pytest.mark.parametrize("status", [500, 404])
async def test_an_http_server_that_fails_between_calls_is_typed(http: HttpServer, status: int) -> None:
    async with opened(McpServer(url=http.url, name="h")) as call:
        assert await call("who") == "s1 None None"
        http.status = status
        told = await call.failure("who")
        assert told.startswith("MCP server 'h' cannot be used any more since the call of 'who': ")
        assert told.endswith("Session terminated") == (status == 404)


async def test_an_http_server_that_answers_nothing_any_more_is_typed(
    http: HttpServer, skip_seconds: Callable[[float], None]
) -> None:
    async with opened(McpServer(url=http.url, name="h", call_timeout_seconds=20.5)) as call:
        assert await call("who") == "s1 None None"
        http.hangs = True
        hanging = asyncio.create_task(call.failure("who"))
        for seconds in (21, 6):  # of the call, then of the ping
            await http.hanging.acquire()
            skip_seconds(seconds)
        assert (await hanging).startswith(
            "MCP server 'h' has not answered the call of 'who' for 20.5 seconds, nor a ping after it"
        )


async def test_an_http_server_that_is_not_there_is_typed(http: HttpServer) -> None:
    http.status = 401
    message = await failure_of(McpServer(url=http.url, name="h"))
    assert message.startswith("MCP server 'h' could not be started: ")
    message = await failure_of(McpServer(url="http://127.0.0.1:9/mcp", name="h", start_timeout_seconds=20))
    assert "could not be started: ConnectError" in message


# --- made wrongly, and small parts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "either a command or a url"),
        ({"command": "a", "url": "http://b"}, "either a command or a url"),
        ({"url": "localhost:80"}, "url must begin with http:// or https://"),
        ({"url": "http://me:secret@host/mcp"}, "url must not hold a password"),
        ({"command": "a", "scope": "process"}, "scope must be 'rollout' or 'shared', not 'process'"),
        ({"command": "a", "only": "echo"}, "only is a list of tool names"),
        ({"command": "a", "call_timeout_seconds": 0}, "call_timeout_seconds must be a positive number"),
        ({"command": "a", "start_timeout_seconds": -1}, "start_timeout_seconds must be a positive number"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        McpServer(**settings)


@pytest.mark.parametrize(
    ("module", "words"), [("mcp", "need the mcp package"), ("mcp_types", "need version 2")]
)
def test_without_the_extra_it_says_what_to_install(monkeypatch: Any, module: str, words: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"MCP servers {words}.*: pip install 'castform\[mcp\]'"):
        McpServer(command="a")


def test_a_server_is_a_source_that_pickles_and_hides_its_secrets() -> None:
    server = McpServer(command="npx -y 'a b' --flag", env={"KEY": "s3cret"}, scope="shared")
    assert isinstance(server, ToolSource) and server.command == ("npx", "-y", "a b", "--flag")
    assert server.name == "npx" and "s3cret" not in repr(server)
    copy = pickle.loads(pickle.dumps(server))
    assert copy == server and copy.env == {"KEY": "s3cret"}


def test_mapped_names_are_legal_unique_and_leave_legal_ones_alone() -> None:
    names = make_names(["a/b", "a_b", "a.b", "x" * 70, "x" * 64, "größe", ""], "")
    assert names == {
        "a/b": "a_b_2",
        "a_b": "a_b",
        "a.b": "a_b_3",
        "x" * 70: "x" * 62 + "_2",
        "x" * 64: "x" * 64,
        "größe": "gr__e",
        "": "tool",
    }


def test_a_servers_schema_loses_what_only_validators_read() -> None:
    assert make_parameters(
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {}}}
    ) == {
        "type": "object",
        "properties": {"a": {}},
    }
    assert make_parameters(None) == {"type": "object", "properties": {}}


async def test_half_a_character_that_a_server_writes_is_a_question_mark():
    async with opened(plain(call_timeout_seconds=20)) as call:
        assert await call("half") == "cut here: ?"


async def test_arguments_that_cannot_be_sent_are_told_to_the_model_and_the_server_goes_on():
    nested: Any = "x"
    for _ in range(600):
        nested = [nested]
    async with opened(plain(call_timeout_seconds=20)) as call:
        assert await call("files_read_it", self="\ud83d") == (
            "Invalid arguments for tool 'files/read it': they hold text that is not valid Unicode."
        )
        connection = call.tools["echo"].function
        with pytest.raises(ArgumentFault, match="'echo': they are nested too deeply"):
            await connection(text=nested)
        assert await call("echo", text="whole \U0001f600") == "whole \U0001f600"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"command": 5}, "command must hold texts, not 5"),
        ({"command": ["run", 5]}, "command must hold texts, not 5"),
        ({"command": "run", "env": {"A": 1}}, "env must hold texts, not 1"),
        ({"command": "run", "env": "A=1"}, "env must hold texts"),
        ({"command": "run", "pass_env": "KEY"}, "pass_env must hold texts, not 'KEY'"),
        ({"url": "http://h/mcp", "headers": {"X": None}}, "headers must hold texts, not None"),
        ({"command": ["run", "a\0b"]}, "command must not hold a NUL"),
    ],
)
def test_settings_that_no_program_could_be_given_are_refused_at_once(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        McpServer(**settings)
