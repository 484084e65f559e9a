"""The odd forms that tools, calls and results come in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

import pytest

from benchmax.envs import BaseEnv, Dataset, Example, RolloutFailure, RolloutRequest, StaticBearerAuth
from benchmax.envs.base.dataset import resolve_dataset_path
from benchmax.envs.base.reply import read_reply
from benchmax.envs.base.tool_box import ToolBox
from benchmax.envs.tool_results import tool_content
from benchmax.envs.tools import FunctionTool, bind_tools, call_function_tool
from benchmax.envs.worker_thread import call_in_thread
from benchmax.testing import ChatServer, function_call


def reply_with(*calls: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"content": None, "tool_calls": list(calls)}, "finish_reason": "tool_calls"}]
    }


def test_a_call_that_is_no_object_is_model_error() -> None:
    with pytest.raises(RolloutFailure) as raised:
        read_reply(reply_with(function_call("a", "f"), "f()"), turn=0)
    assert raised.value.termination_reason == "model_error"
    assert str(raised.value) == "tool call 1 of the reply is not an object"


@pytest.mark.parametrize("kind", [{}, {"type": None}, {"type": "function"}])
def test_a_function_call_without_its_type_is_one(kind: dict[str, Any]) -> None:
    call = {**kind, "function": {"name": "f", "arguments": {"a": 1}}, "index": 0}
    assert read_reply(reply_with(call), turn=3).tool_calls == [
        {"id": "call_3_0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    ]


@pytest.mark.parametrize(
    "call", [{"type": "custom", "function": {"name": "f"}}, {"type": "function", "function": "f"}]
)
def test_a_call_of_another_kind_is_kept_as_it_came(call: dict[str, Any]) -> None:
    assert read_reply(reply_with(call), turn=0).tool_calls == [{**call, "id": "call_0_0"}]


class Tools(BaseEnv):
    """Answers with what its run_tool was given."""

    max_turns = 1

    async def create_dataset(self, split: Any, base_dir: Any, *, max_examples: Any = None) -> Dataset[Any]:
        return Dataset([])

    def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> Any:  # type: ignore[override]
        return [rollout_id, tool_name, arguments]


class OldTools(Tools):
    def run_tool(self, rollout_id: str, tool_name: str, *, city: str) -> str:  # type: ignore[override]
        if rollout_id != "r" or tool_name != "weather":
            raise AssertionError((rollout_id, tool_name))
        return city


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
BARE = {"type": "function", "function": {"name": "bare"}}


async def answer(env: BaseEnv, call: Mapping[str, Any]) -> Any:
    return (await ToolBox(env, "r", [WEATHER, BARE]).answer({"id": "c", "type": "function", **call}))[
        "content"
    ]


async def test_a_plain_run_tool_is_called_with_rollout_name_and_arguments() -> None:
    assert (
        await answer(Tools(), function_call("c", "weather", {"city": "Oslo"}))
        == '["r","weather",{"city":"Oslo"}]'
    )
    assert await answer(OldTools(), function_call("c", "weather", {"city": "Oslo"})) == "Oslo"


async def test_arguments_are_held_to_the_tools_own_schema() -> None:
    told = await answer(Tools(), function_call("c", "weather", {"town": "Oslo"}))
    assert told == (
        "Invalid arguments for tool 'weather': 'city' is missing; 'town' is not a parameter. Its parameters: 'city'."
    )
    assert await answer(Tools(), function_call("c", "bare", {"any": 1})) == '["r","bare",{"any":1}]'


async def test_a_signature_that_cannot_take_the_arguments_is_told_with_the_tools_name() -> None:
    told = await answer(OldTools(), function_call("c", "bare", {"any": 1}))
    assert told.startswith("Invalid arguments for tool 'bare': ")
    assert "'city'" in told


@pytest.mark.parametrize(
    "call", [{"type": "custom", "function": {"name": "weather"}}, {"function": "weather()"}]
)
async def test_a_call_that_is_no_function_call_is_told_its_type(call: dict[str, Any]) -> None:
    kind = call.get("type", "function")
    assert (
        await answer(Tools(), call) == f"Unsupported tool call type {kind!r}: call a function tool instead."
    )


@pytest.mark.parametrize("name", ["", 5, None])
def test_a_tool_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(ValueError) as raised:
        ToolBox(Tools(), "r", [{"type": "function", "function": {"name": name}}])
    assert str(raised.value) == f"a tool needs a name, not {name!r}"


async def test_a_name_that_no_function_has_is_refused_by_the_default_run_tool() -> None:
    class Plain(Tools):
        run_tool = BaseEnv.run_tool

    with pytest.raises(ValueError) as raised:
        await Plain().run_tool("r", "fly")
    assert str(raised.value) == "Plain.run_tool does not know the tool 'fly'"


class Parallel(Tools):
    parallel_tool_calls = True

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> str:  # type: ignore[override]
        if tool_name == "bare":
            raise RolloutFailure("sandbox_error", "gone")
        for _ in range(20):
            await asyncio.sleep(0)
        self.done.append(tool_name)
        return "fine"


async def test_parallel_calls_finish_before_the_failed_one_ends_the_rollout() -> None:
    env = Parallel()
    into: list[dict[str, Any]] = []
    calls = [
        function_call("1", "weather", {"city": "x"}),
        function_call("2", "bare"),
        function_call("3", "weather", {"city": "y"}),
    ]
    with pytest.raises(RolloutFailure, match="gone"):
        await ToolBox(env, "r", [WEATHER, BARE]).answer_all(calls, into=into)
    assert env.done == ["weather", "weather"]
    assert [message["tool_call_id"] for message in into] == ["1"]


def test_results_become_readable_compact_text() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert tool_content(MappingProxyType({"é": [1, None]})) == '{"é":[1,null]}'
    assert tool_content({"at": complex(1, 2)}) == '{"at":"(1+2j)"}'
    assert tool_content({(1, 2): 3}) == "{(1, 2): 3}"
    assert tool_content(cycle) == "[[...]]"
    assert tool_content(object) == "<class 'object'>"
    assert tool_content([]) == "[]"
    assert tool_content(True) == "true"


def parameters_of(function: Any) -> Mapping[str, Any]:
    return FunctionTool(function=function, name="f").parameters


def test_hints_without_details_leave_them_out() -> None:
    def hinted(
        a: list,  # type: ignore[type-arg]
        b: list[object],
        c: dict,  # type: ignore[type-arg]
        d: dict[str, object],
        e: Annotated[int, 5],
        f: Annotated[int, 5, "how many", "more"],
        g: Sequence[int],
    ) -> None:
        return None

    assert parameters_of(hinted)["properties"] == {
        "a": {"type": "array", "items": {}},
        "b": {"type": "array", "items": {}},
        "c": {"type": "object", "additionalProperties": True},
        "d": {"type": "object", "additionalProperties": True},
        "e": {"type": "integer"},
        "f": {"type": "integer", "description": "how many"},
        "g": {"type": "array", "items": {"type": "integer"}},
    }


def test_parameters_without_hints_are_open_and_kwargs_allow_other_names() -> None:
    def free(a, *rest, b=1, **others):  # type: ignore[no-untyped-def]
        return a

    assert parameters_of(free) == {
        "type": "object",
        "properties": {"a": {}, "b": {"default": 1}},
        "required": ["a"],
        "additionalProperties": True,
    }


def test_hints_that_only_a_type_checker_knows_leave_their_own_parameter_open() -> None:
    def odd(a: Nowhere, b: int) -> None:  # type: ignore[name-defined]  # noqa: F821
        return None

    assert parameters_of(odd)["properties"] == {"a": {}, "b": {"type": "integer"}}


class Adder:
    """Adds
    one.

    For people.
    """

    def __call__(self, a: int) -> int:
        return a + 1


def test_an_object_that_can_be_called_is_a_tool_by_the_name_of_its_class() -> None:
    (tool,) = bind_tools([Adder()], object()).values()
    assert (tool.name, tool.description) == ("Adder", "Adds one.")
    assert FunctionTool(function=lambda a: a, name="same").description == ""


async def test_a_plain_function_runs_in_the_loops_thread_unless_asked_otherwise() -> None:
    def where() -> str:
        thread = threading.current_thread()
        return f"{thread.name} {thread.daemon} {thread is threading.main_thread()}"

    async def where_async() -> str:
        return where()

    here = where()
    assert await call_function_tool(where, {}) == here
    assert await call_function_tool(where, {}, in_thread=True) == "benchmax-tool True False"
    assert await call_function_tool(where_async, {}, in_thread=True) == here


async def test_a_function_in_a_thread_gets_its_arguments() -> None:
    assert await call_in_thread(lambda a, b: a - b, {"b": 1, "a": 5}) == 4


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit, BaseException])
async def test_no_function_in_a_thread_interrupts_or_cancels_its_caller(kind: type[BaseException]) -> None:
    def raise_it() -> None:
        raise kind("from the model's code")

    told = await call_function_tool(raise_it, {}, in_thread=True)
    assert told == f"Error: RuntimeError: {kind.__name__}: from the model's code"


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Any) -> None:
    inside = tmp_path / "data"
    inside.mkdir()
    (tmp_path / "secret.jsonl").write_text("{}")
    (inside / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (inside / "rows.jsonl").write_text("{}")
    assert resolve_dataset_path(inside, "rows.jsonl") == inside.resolve() / "rows.jsonl"
    with pytest.raises(ValueError, match="must stay within base_dir"):
        resolve_dataset_path(inside, "link.jsonl")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "the reply has no choices"),
        ({"choices": {}}, "the reply has no choices"),
        ({"choices": []}, "the reply has no choices"),
        ({"choices": ["hi"]}, "the reply has no message"),
        ({"choices": [{"text": "hi"}]}, "the reply has no message"),
    ],
)
def test_a_reply_without_a_message_is_model_error(body: dict[str, Any], message: str) -> None:
    with pytest.raises(RolloutFailure) as raised:
        read_reply(body, turn=0)
    assert (raised.value.termination_reason, str(raised.value)) == ("model_error", message)


@pytest.mark.parametrize("odd", [5, " ", "", None])
def test_a_finish_reason_that_is_no_word_is_none(odd: Any) -> None:
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": odd}]}
    assert read_reply(body, turn=0).finish_reason is None


class Budget(Tools):
    max_turns = 5
    max_tool_calls = 2

    async def list_tools(self) -> Any:
        return [BARE]

    async def compute_reward(self, rollout: Any) -> dict[str, float]:
        return {"answers": float(sum(message["role"] == "tool" for message in rollout.messages))}


async def run_budget(*replies: Any) -> Any:
    async with ChatServer(list(replies)) as server:
        example = Example("e", {"prompt_messages": [{"role": "user", "content": "q"}]})
        env = Budget()
        request = RolloutRequest("r", example, "m", server.base_url, StaticBearerAuth("k"))
        outcome = (await env.run_group([request]))["r"]
        await env.aclose()
    return outcome


async def test_the_tool_budget_counts_the_calls_of_all_turns_and_may_be_spent_to_the_last() -> None:
    one = {"tool_calls": [function_call("a", "bare")]}
    two = {"tool_calls": [function_call("a", "bare"), function_call("b", "bare")]}
    spent = await run_budget(one, one, {"content": "done"})
    assert (spent.termination_reason, spent.rewards) == ("finished", {"answers": 2.0})
    at_once = await run_budget(two, {"content": "done"})
    assert (at_once.termination_reason, at_once.rewards) == ("finished", {"answers": 2.0})
    over = await run_budget(one, one, one)
    assert (over.termination_reason, over.rewards) == ("tool_budget_exceeded", {"answers": 2.0})


async def test_a_reply_without_calls_and_finish_reason_says_so() -> None:
    outcome = await run_budget({"content": "hi", "finish_reason": None})
    assert outcome.termination_reason == "model_error"
    assert outcome.error == "the reply has neither tool calls nor a finish reason"


def test_what_is_no_function_is_no_tool() -> None:
    with pytest.raises(TypeError) as raised:
        bind_tools([WEATHER], object())  # type: ignore[list-item]
    assert str(raised.value) == "tools holds functions, not dict; list_tools gives other definitions"
