"""Functions as tools: their schema, the check of a model's arguments, and how calls are answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    RewardMap,
    RolloutFailure,
    RolloutRequest,
    StaticBearerAuth,
)
from benchmax.envs.observe import observe_rollouts
from benchmax.envs.tool_arguments import ArgumentFault, check_arguments, parse_arguments
from benchmax.envs.tools import FunctionTool, call_function_tool
from benchmax.testing import ChatServer, function_call


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


def forecast(
    city: Annotated[str, "Name of the city"],
    days: int = 1,
    unit: Literal["c", "f"] = "c",
    tags: list[str] | None = None,
    scale: Unit = Unit.CELSIUS,
    extra: dict[str, float] | None = None,
    raw: object = None,
    near: int | str = 0,
) -> str:
    """Tell the weather.

    This part is for people.
    """
    return f"{city}:{days}:{unit}"


def test_the_schema_comes_from_signature_and_docstring() -> None:
    assert FunctionTool(function=forecast).definition() == {
        "type": "function",
        "function": {
            "name": "forecast",
            "description": "Tell the weather.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city"},
                    "days": {"type": "integer", "default": 1},
                    "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                    "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                    "scale": {"type": "string", "enum": ["c", "f"], "default": "c"},
                    "extra": {
                        "anyOf": [
                            {"type": "object", "additionalProperties": {"type": "number"}},
                            {"type": "null"},
                        ]
                    },
                    "raw": {},
                    "near": {"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 0},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }


SCHEMA = FunctionTool(function=forecast).parameters


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "'city' is missing"),
        ({"city": "Oslo", "town": 1}, "'town' is not a parameter"),
        ({"city": 5}, "'city' must be string, not 5"),
        ({"city": "Oslo", "days": "two"}, "'days' must be integer"),
        ({"city": "Oslo", "days": True}, "'days' must be integer"),
        ({"city": "Oslo", "days": 1.5}, "'days' must be integer"),
        ({"city": "Oslo", "unit": "k"}, "'unit' must be one of"),
        ({"city": "Oslo", "near": None}, "'near' must be integer or string"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentFault, match=words):
        check_arguments("forecast", arguments, SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        ({"city": "Oslo", "days": 2.0, "near": "x", "raw": [1], "tags": [1]}, SCHEMA),
        ({"anything": 1}, None),
        ({"anything": 1}, {"type": "object"}),
        ({"anything": 1}, {"properties": {}, "additionalProperties": True}),
        ({"x": 1}, {"properties": {"x": {"type": "decimal"}}}),
        ({"x": 1}, {"properties": {"x": True}, "required": [["x"]]}),
    ],
)
def test_arguments_that_may_fit_pass(arguments: dict[str, Any], schema: Any) -> None:
    check_arguments("tool", arguments, schema)


@pytest.mark.parametrize(
    "text", ["{'a': 1}", '{"a": NaN}', '{"a": 1}}', "[" * 100_000, "9" * 5000, "nonsense"]
)
def test_text_that_is_no_json_is_the_models_fault(text: str) -> None:
    with pytest.raises(ArgumentFault, match="JSON"):
        parse_arguments(text)


async def test_a_function_that_raises_gives_words_and_a_failure_passes_through() -> None:
    def broken() -> None:
        raise KeyError("k")

    async def ends() -> None:
        raise RolloutFailure("sandbox_error", "box is gone")

    assert await call_function_tool(broken, {}) == "Error: KeyError: 'k'"
    assert await call_function_tool(broken, {}, in_thread=True) == "Error: KeyError: 'k'"
    assert (await call_function_tool(broken, {"a": 1})).startswith("Invalid arguments: ")  # type: ignore[union-attr]
    with pytest.raises(RolloutFailure, match="box is gone"):
        await call_function_tool(ends, {})


async def test_a_thread_gives_back_what_a_future_cannot_carry() -> None:
    def exhausted() -> None:
        next(iter(()))

    assert "StopIteration" in await call_function_tool(exhausted, {}, in_thread=True)


# --- in a rollout ----------------------------------------------------------------------------------


class ToolEnv(BaseEnv):
    max_turns = 3

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        return Dataset([])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        return {"x": 1.0}


async def answers_to(env: BaseEnv, *calls: dict[str, Any]) -> list[Any]:
    """Play the calls in one turn and return what the model reads in answer."""
    example = Example("e", {"prompt_messages": [{"role": "user", "content": "go"}]})
    async with ChatServer([{"tool_calls": list(calls)}, {"content": "done"}]) as server:
        rollout = await env.run_rollout(
            RolloutRequest("r7", example, "m", server.base_url, StaticBearerAuth("k"))
        )
        await env.aclose()
    assert rollout.rewards == {"x": 1.0}, rollout.error
    return [message["content"] for message in rollout.messages if message["role"] == "tool"]


async def test_arguments_may_be_called_like_our_own() -> None:
    def note(rollout_id: str, tool_name: str, self: str, function: str) -> str:
        return rollout_id + tool_name + self + function

    class Env(ToolEnv):
        tools = (note,)

    names = {"rollout_id": "a", "tool_name": "b", "self": "c", "function": "d"}
    assert await answers_to(Env(), function_call("1", "note", names)) == ["abcd"]


async def test_names_that_an_override_cannot_receive_are_told_to_the_model() -> None:
    parameters = {"type": "object", "properties": {"rollout_id": {"type": "string"}, "city": {}, "town": {}}}

    class Env(ToolEnv):
        async def list_tools(self) -> Sequence[Any]:
            return [{"type": "function", "function": {"name": "w", "parameters": parameters}}]

        async def run_tool(self, rollout_id: str, tool_name: str, city: str = "none") -> object:  # type: ignore[override]
            return f"{rollout_id} {city}"

    taken, unexpected, fine = await answers_to(
        Env(),
        function_call("1", "w", {"rollout_id": "x"}),
        function_call("2", "w", {"town": "Oslo"}),
        function_call("3", "w", {"city": "Oslo"}),
    )
    assert "rollout_id" in taken and "town" in unexpected and fine == "r7 Oslo"


async def test_methods_are_tools_of_their_environment() -> None:
    class Env(ToolEnv):
        def __init__(self) -> None:
            super().__init__()
            self.notes: list[str] = []

        def remember(self, text: str) -> list[str]:
            self.notes.append(text)
            return self.notes

        async def count(self) -> int:
            return len(self.notes)

        tools = (remember, count)

    env = Env()
    assert "self" not in json.dumps(await env.list_tools())
    calls = [function_call("1", "remember", {"text": "ä"}), function_call("2", "count")]
    assert await answers_to(env, *calls) == ['["ä"]', "1"]


def test_two_tools_of_one_name_are_refused() -> None:
    class Env(ToolEnv):
        tools = (forecast, FunctionTool(function=len, name="forecast"))

    with pytest.raises(ValueError, match="two tools are called 'forecast'"):
        _ = Env().function_tools


async def test_an_observer_keeps_each_request_as_it_was_sent() -> None:
    def now() -> str:
        return "noon"

    class Env(ToolEnv):
        tools = (now,)

    class Observer:
        def __init__(self) -> None:
            self.requests: list[Mapping[str, Any]] = []

        def on_call(self, rollout_id: str, request: Mapping[str, Any], reply: Any, seconds: float) -> None:
            self.requests.append(request)

        def on_attempt(self, attempt: Any) -> None: ...

    observer = Observer()
    with observe_rollouts(observer):
        assert await answers_to(Env(), function_call("1", "now")) == ["noon"]
    assert [len(request["messages"]) for request in observer.requests] == [1, 3]


@pytest.mark.parametrize("parallel", [False, True])
async def test_calls_of_one_turn_run_side_by_side_only_when_allowed(parallel: bool) -> None:
    running = most = 0

    async def step(name: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3 if name == "a" else 1):
            await asyncio.sleep(0)
        running -= 1
        return name

    class Env(ToolEnv):
        tools = (step,)
        parallel_tool_calls = parallel

    calls = [function_call(name, "step", {"name": name}) for name in "abc"]
    assert await answers_to(Env(), *calls) == ["a", "b", "c"]
    assert most == (3 if parallel else 1)


async def test_a_failing_parallel_call_lets_the_others_finish() -> None:
    finished: list[str] = []

    class Env(ToolEnv):
        parallel_tool_calls = True

        async def list_tools(self) -> Sequence[Any]:
            return [{"type": "function", "function": {"name": name}} for name in ("bad", "good")]

        async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
            if tool_name == "bad":
                raise OSError("no")
            await asyncio.sleep(0)
            finished.append(tool_name)
            return "ok"

    example = Example("e", {"prompt_messages": [{"role": "user", "content": "go"}]})
    calls = [function_call("1", "bad"), function_call("2", "good")]
    env = Env()
    async with ChatServer([{"tool_calls": calls}]) as server:
        rollout = await env.run_rollout(
            RolloutRequest("r", example, "m", server.base_url, StaticBearerAuth("k"))
        )
        await env.aclose()
    assert (rollout.termination_reason, rollout.error) == ("tool_error", "tool 'bad': OSError: no")
    assert finished == ["good"]
