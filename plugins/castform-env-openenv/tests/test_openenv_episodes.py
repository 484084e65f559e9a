"""Episodes against servers that speak the protocol in this process: well, badly, and not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from castform_env_openenv.config import ServerConfig
from castform_env_openenv.environment import OpenEnv
from castform_env_openenv.example_server import list_phrases, make_app

from castform.testing import FakeModel, Reply, ScriptedRequest, ToolUse

Answer = Callable[[dict[str, Any]], Any]
SCHEMA = {"action": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}


def observed(reward: Any = None, done: bool = False, **observation: Any) -> dict[str, Any]:
    return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}


def failed(code: str, message: str = "it went wrong", **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"code": code, "message": message, **more}}


class Odd:
    """A server whose answers a test decides; a text is sent as it is, None closes the connection."""

    def __init__(self, step: Answer | None = None, reset: Answer | None = None, schema: Any = SCHEMA) -> None:
        self.step = step or (lambda data: observed(1.0, True))
        self.reset = reset or (lambda data: observed(say="go"))
        self.schema = schema
        self.frames: list[dict[str, Any]] = []
        self.open = self.most_open = 0

    async def socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            async for message in socket:
                frame = json.loads(message.data)
                self.frames.append(frame)
                if frame["type"] == "close":
                    break
                answer = getattr(self, frame["type"])(frame["data"])
                if asyncio.iscoroutine(answer):
                    answer = await answer
                if answer is None:
                    break
                await socket.send_str(answer if isinstance(answer, str) else json.dumps(answer))
        finally:
            self.open -= 1
        await socket.close()
        return socket

    async def answer_schema(self, request: web.Request) -> web.Response:
        return web.json_response(self.schema) if self.schema is not None else web.Response(status=404)

    def actions(self) -> list[Any]:
        return [frame["data"] for frame in self.frames if frame["type"] == "step"]

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        app = web.Application()
        app.add_routes([web.get("/ws", self.socket), web.get("/schema", self.answer_schema)])
        async with TestServer(app) as server:
            yield str(server.make_url("")).rstrip("/")


async def play(url: str, replies: Any, *, size: int = 1, **config: Any) -> Any:
    """Return the rollouts of a group and what the model was asked."""
    environment = OpenEnv(ServerConfig(url=url, **config))
    (example,) = await environment.create_dataset("train", Path(), max_examples=1)
    async with FakeModel(replies) as model:
        group = await model.run_group(environment, example, size=size)
    await environment.aclose()
    return group.rollouts, model.requests


async def one(odd: Odd, replies: Any = ("hello",), **config: Any) -> Any:
    async with odd.serve() as url:
        (rollout,), _ = await play(url, list(replies), **config)
    assert odd.open == 0
    return rollout


async def test_an_episode_is_a_reset_and_a_step_a_reply_until_it_is_done() -> None:
    async with TestServer(make_app()) as server:
        url = str(server.make_url("/"))
        right = list_phrases(0)
        solved = {"solved_observation": "Say: a b", "solved_reply": "a b"}
        rollouts, requests = await play(
            url, right, observation_field="prompt", instructions="Repeat.", **solved
        )
        assert rollouts[0].rewards == {"reward": 1.0}
        assert rollouts[0].termination_reason == "finished"
        assert [m["content"] for m in requests[1].messages] == [
            "Repeat.",
            "Say: a b",
            "a b",
            f"Say: {right[0]}",
            right[0],
            f"Say: {right[1]}",
        ]
        rollouts, _ = await play(url, [right[0], "no"], observation_field="prompt")
        assert rollouts[0].rewards == {"reward": 0.5}
        rollouts, _ = await play(url, [right[0], "no"], observation_field="prompt", reward="last")
        assert rollouts[0].rewards == {"reward": 0.0}
        rollouts, _ = await play(url, [right[0]], observation_field="prompt", max_turns=1)
        assert rollouts[0].rewards == {"reward": 0.5}
        assert rollouts[0].termination_reason == "max_turns_exceeded"


async def test_the_reset_gets_the_arguments_of_its_example_and_only_them() -> None:
    odd = Odd()
    await one(odd, train=[{"level": 3, "seed": 7}])
    assert odd.frames[0] == {"type": "reset", "data": {"level": 3, "seed": 7}}
    assert odd.frames[-1]["type"] == "close"


async def test_seeds_are_examples_and_those_held_out_are_others() -> None:
    environment = OpenEnv(ServerConfig(url="http://127.0.0.1:1", train=3, eval=2, seed=5))
    train = await environment.create_dataset("train", Path())
    held_out = await environment.create_dataset("eval", Path())
    assert [e.payload["reset"] for e in train] == [{"seed": 5}, {"seed": 6}, {"seed": 7}]
    assert [e.id for e in held_out] == ["seed-1048581", "seed-1048582"]


async def test_a_reply_is_the_one_field_that_the_schema_requires() -> None:
    odd = Odd(schema={"action": {"properties": {"text": {"type": "string"}, "metadata": {"type": "object"}}}})
    await one(odd, ["<think>hm</think> hello "], action_extra={"player": 2})
    assert odd.actions() == [{"text": "hello", "player": 2}]


async def test_a_field_that_is_no_text_takes_json_and_says_so() -> None:
    schema = {"action": {"properties": {"move": {"type": "integer"}}, "required": ["move"]}}
    odd = Odd(schema=schema)
    async with odd.serve() as url:
        (rollout,), requests = await play(url, ["four", "4"])
    assert odd.actions() == [{"move": 4}]
    assert "type integer" in requests[1].messages[-1]["content"]
    assert rollout.rewards == {"reward": 1.0}


@pytest.mark.parametrize(
    ("schema", "config", "told"),
    [
        ({"action": {"properties": {"a": {}, "b": {}}}}, {}, "2 fields (a, b)"),
        ({"action": {"properties": {"a": {}}}}, {"action_field": "b"}, "no field 'b'; action_field can be a"),
        (None, {}, "no schema"),
    ],
)
async def test_where_nothing_says_which_field_a_reply_is_the_error_does(
    schema: Any, config: Any, told: str
) -> None:
    rollout = await one(Odd(schema=schema), **config)
    assert rollout.termination_reason == "sandbox_error" and told in rollout.error
    assert rollout.rewards == {}


async def test_without_a_schema_a_named_field_is_enough() -> None:
    odd = Odd(schema=None)
    await one(odd, action_field="message")
    assert odd.actions() == [{"message": "hello"}]


async def test_the_server_s_schema_becomes_a_tool() -> None:
    schema = {
        "action": {
            "title": "Move",
            "description": "Move the king.",
            "type": "object",
            "properties": {"x": {"type": "integer"}, "metadata": {"type": "object"}},
            "required": ["x"],
        }
    }
    odd = Odd(lambda data: observed(0.25, done=data["x"] == 2, at=data["x"]), schema=schema)

    def script(request: ScriptedRequest) -> Reply | str:
        calls = [{"x": 1}, {"y": 1}, {"x": 2}, {"x": 3}]
        return (
            Reply(tool_calls=[ToolUse(name="step", arguments=calls[request.index])])
            if request.index < 4
            else "end"
        )

    async with odd.serve() as url:
        (rollout,), requests = await play(url, script, action="step")
    assert odd.actions() == [{"x": 1}, {"x": 2}]
    (tool,) = requests[0].body["tools"]
    assert tool["function"]["description"] == "Move the king."
    assert tool["function"]["parameters"] == {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
    }
    told = [m["content"] for m in requests[-1].messages if m["role"] == "tool"]
    assert told[0] == '{"at": 1}'
    assert "x" in told[1]  # what is missing
    assert told[2] == '{"at": 2}\nThe episode is over.'
    assert told[3] == "The episode is over."
    assert rollout.rewards == {"reward": 0.5}


async def test_the_tools_that_a_server_lists_are_the_model_s() -> None:
    listed = [
        {
            "name": "look",
            "description": "Look.",
            "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
        }
    ]

    def step(data: dict[str, Any]) -> Any:
        if data["type"] == "list_tools":
            return observed(tools=listed)
        if data["arguments"].get("at") == "sun":
            return observed(None, error={"error_type": "execution_error", "message": "too bright"})
        return observed(1.0, True, tool_name="look", result={"data": "a tree", "content": []})

    odd = Odd(step, schema=None)

    def script(request: ScriptedRequest) -> Reply | str:
        places = ["sun", "hill"]
        use = [ToolUse(name="look", arguments={"at": places[request.index]})] if request.index < 2 else []
        return Reply(tool_calls=use) if use else "end"

    async with odd.serve() as url:
        (rollout,), requests = await play(url, script, action="tools")
    assert requests[0].body["tools"][0]["function"]["name"] == "look"
    assert odd.actions()[1] == {"type": "call_tool", "tool_name": "look", "arguments": {"at": "sun"}}
    told = [m["content"] for m in requests[-1].messages if m["role"] == "tool"]
    assert told == ["Error: too bright", "a tree\nThe episode is over."]
    assert rollout.rewards == {"reward": 1.0}
    assert "lists no tools" in (await one(Odd(), action="tools")).error


async def test_an_action_that_the_server_refuses_is_told_to_the_model() -> None:
    answers = iter(
        [failed("VALIDATION_ERROR", errors=[{"loc": ["text"], "msg": "too short"}]), observed(1, True)]
    )
    odd = Odd(lambda data: next(answers))
    async with odd.serve() as url:
        (rollout,), requests = await play(url, ["a", "abc"])
    assert requests[1].messages[-1]["content"] == "text: too short"
    assert rollout.rewards == {"reward": 1.0}


@pytest.mark.parametrize(
    ("step", "reason", "told"),
    [
        (failed("EXECUTION_ERROR"), "tool_error", "failed at a step: it went wrong (EXECUTION_ERROR)"),
        (failed("SESSION_ERROR"), "tool_error", "SESSION_ERROR"),
        (None, "sandbox_error", "closed the session at a step"),
        ("not json", "sandbox_error", "no JSON: 'not json'"),
        ("[1]", "sandbox_error", "answered a step with '[1]'"),
        ({"type": "observation", "data": {"reward": 1}}, "sandbox_error", "no observation"),
        ('{"type": "observation", "data": {"observation": {}, "reward": NaN}}', "reward_error", "reward nan"),
        ('{"type": "observation", "data": {"observation": {}, "reward": Infinity}}', "reward_error", "inf"),
        (observed("1"), "reward_error", "reward '1'"),
        ("[" * 100_000, "sandbox_error", "no JSON"),
    ],
)
async def test_a_server_that_fails_fails_its_rollout_by_name(step: Any, reason: str, told: str) -> None:
    rollout = await one(Odd(lambda data: step))
    assert (rollout.termination_reason, rollout.rewards) == (reason, {})
    assert told in rollout.error


@pytest.mark.parametrize(
    ("reset", "told"),
    [
        (failed("EXECUTION_ERROR"), "failed at a reset"),
        (failed("VALIDATION_ERROR"), 'refuses to reset with {"seed": 0}'),
        (failed("FACTORY_ERROR"), "FACTORY_ERROR"),
        (None, "closed the session at a reset"),
    ],
)
async def test_an_episode_that_cannot_begin_asks_no_model(reset: Any, told: str) -> None:
    odd = Odd(reset=lambda data: reset)
    async with odd.serve() as url:
        (rollout,), requests = await play(url, ["hello"])
    assert rollout.termination_reason == "sandbox_error" and told in rollout.error
    assert requests == [] and odd.open == 0


async def test_a_server_that_never_answers_costs_its_time() -> None:
    async def never(data: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    rollout = await one(Odd(never), step_seconds=0.05)
    assert rollout.termination_reason == "tool_error"
    assert "did not answer a step within 0.05 seconds" in rollout.error


async def test_no_server_is_a_failed_rollout() -> None:
    (rollout,), requests = await play("http://127.0.0.1:9", ["hello"], start_seconds=1)
    assert rollout.termination_reason == "sandbox_error" and "127.0.0.1:9" in rollout.error
    assert requests == []


async def test_one_session_at_a_time_where_the_server_has_one() -> None:
    odd = Odd()
    async with odd.serve() as url:
        rollouts, _ = await play(url, ["hello"], size=5)
        assert odd.most_open == 1
        assert [r.rewards for r in rollouts] == [{"reward": 1.0}] * 5
        odd.most_open = 0
        gate = asyncio.Event()

        async def together(data: dict[str, Any]) -> Any:
            if odd.open == 3:
                gate.set()
            await gate.wait()
            return observed(1.0, True)

        odd.step = together
        rollouts, _ = await play(url, ["hello"], size=3, sessions=3)
        assert odd.most_open == 3


async def test_a_busy_server_is_asked_again_until_the_time_is_up() -> None:
    answers = iter([failed("CAPACITY_REACHED", "full")] * 2 + [observed(say="go")])
    assert (await one(Odd(reset=lambda data: next(answers)))).rewards == {"reward": 1.0}
    rollout = await one(Odd(reset=lambda data: failed("CAPACITY_REACHED", "full")), start_seconds=0.05)
    assert rollout.termination_reason == "sandbox_error" and "stays busy: full" in rollout.error


async def test_cancelling_a_rollout_leaves_no_session() -> None:
    stepped = asyncio.Event()

    async def wait(data: dict[str, Any]) -> None:
        stepped.set()
        await asyncio.Event().wait()

    odd = Odd(wait)
    async with odd.serve() as url:
        work = asyncio.create_task(play(url, ["hello"]))
        await stepped.wait()
        assert odd.open == 1
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    assert odd.open == 0
