"""Tools that a rollout has for itself: classes with state, sources, and their certain end."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    Example,
    FunctionTool,
    RolloutFailure,
    RolloutRequest,
    StaticBearerAuth,
    ToolSource,
)
from benchmax.envs.tool_closing import see_through
from benchmax.envs.toolset import read_toolset
from benchmax.testing import ChatServer, function_call

EXAMPLE: Example[Any] = Example("e", {"prompt_messages": [{"role": "user", "content": "go"}], "start": 5})


class Counter:
    """Counts; every instance writes down what becomes of it."""

    made: ClassVar[list[Counter]] = []

    def __init__(self, example: Example[Any]) -> None:
        self.count = example.payload["start"]
        self.closed = 0
        self.made.append(self)

    def add(self, by: int = 1) -> int:
        """Add to the count."""
        self.count += by
        return self.count

    async def wait(self) -> None:
        """Never ends."""
        await asyncio.Event().wait()

    def quit(self) -> None:
        """End the rollout."""
        raise RolloutFailure("sandbox_error", "gone")

    @staticmethod
    def double(number: int) -> int:
        return number * 2

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1

    def _hidden(self) -> None: ...


class Env(BaseEnv):
    max_turns = 3
    tools: Any = (Counter,)

    async def create_dataset(self, split: Any, base_dir: Any, *, max_examples: Any = None) -> Dataset[Any]:
        return Dataset([])

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        return {"count": float(self.toolset(Counter).count)}


@pytest.fixture(autouse=True)
def _no_counters_of_other_tests() -> None:
    Counter.made.clear()


async def run(env: BaseEnv, *turns: Any, size: int = 1, script: Any = None) -> dict[str, Any]:
    async with ChatServer(script or [*turns, {"content": "done"}]) as server:
        requests = [
            RolloutRequest(f"r{place}", EXAMPLE, "m", server.base_url, StaticBearerAuth(f"k{place}"))
            for place in range(size)
        ]
        outcomes = await env.run_group(requests)
        await env.aclose()
    return outcomes


def calls(*names: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [function_call(f"c{i}", name, arguments) for i, name in enumerate(names)]}


# --- classes ---------------------------------------------------------------------------------------


def test_public_methods_are_the_tools_and_closing_is_none_of_them() -> None:
    class More(Counter):
        def add(self, by: int = 1, twice: bool = False) -> int:
            return 0

        careful = FunctionTool(function=Counter.wait, name="careful", timeout_seconds=2, exclusive=True)

    toolset = read_toolset(More)
    assert list(toolset.tools) == ["add", "wait", "quit", "double", "careful"]
    assert list(toolset.tools["add"].parameters["properties"]) == ["by", "twice"]
    assert toolset.tools["careful"].parameters["properties"] == {}
    assert toolset.takes_example


async def test_siblings_never_share_state_and_each_is_closed_once() -> None:
    async def script(request: Any) -> Any:
        spoken = sum(message["role"] == "assistant" for message in request.body["messages"])
        number = int(request.headers["Authorization"][-1])
        return calls("add", by=10**number) if spoken < 2 else {"content": "done"}

    outcomes = await run(Env(), size=3, script=script)
    assert {rollout_id: outcome.rewards["count"] for rollout_id, outcome in outcomes.items()} == {
        "r0": 7.0,
        "r1": 25.0,
        "r2": 205.0,
    }
    assert [counter.closed for counter in Counter.made] == [1, 1, 1]


async def test_a_reward_in_a_thread_of_its_own_sees_the_rollouts_tools() -> None:
    class Threaded(Env):
        score_in_thread = True

    assert (await run(Threaded(), calls("add", by=4)))["r0"].rewards == {"count": 9.0}


async def test_a_rollout_that_fails_in_a_tool_closes_its_tools() -> None:
    outcome = (await run(Env(), calls("quit")))["r0"]
    assert (outcome.termination_reason, outcome.error) == ("sandbox_error", "gone")
    assert [counter.closed for counter in Counter.made] == [1]


async def test_a_rollout_out_of_time_closes_its_tools(skip_seconds: Callable[[float], None]) -> None:
    class Endless(Counter):
        async def wait(self) -> None:
            skip_seconds(61)
            await super().wait()

    class Short(Env):
        rollout_timeout_seconds = 60.0
        tools = (Endless,)

    outcome = (await run(Short(), calls("wait")))["r0"]
    assert outcome.termination_reason == "harness_timeout"
    assert [counter.closed for counter in Counter.made] == [1]


async def test_a_cancelled_rollout_closes_its_tools_however_often_it_is_cancelled() -> None:
    closing, release = asyncio.Event(), asyncio.Event()

    class Slow(Counter):
        async def wait(self) -> None:
            waiting.set()
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            closing.set()
            await release.wait()
            self.closed += 1

    class SlowEnv(Env):
        tools = (Counter, FunctionTool(function=len, name="len"), Slow)

    class OnlySlow(Env):
        tools = (Slow,)

    with pytest.raises(ValueError, match="two tools are called 'add'"):
        SlowEnv()
    waiting = asyncio.Event()
    task = asyncio.create_task(run(OnlySlow(), calls("wait")))
    await waiting.wait()
    task.cancel()
    await closing.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [counter.closed for counter in Counter.made] == [1]


async def test_an_init_that_raises_ends_the_rollout_and_what_was_made_before_is_closed() -> None:
    class Broken:
        def __init__(self) -> None:
            raise OSError("no disk")

        def work(self) -> None: ...

    class BrokenEnv(Env):
        tools = (Counter, Broken)

    outcome = (await run(BrokenEnv()))["r0"]
    assert (outcome.termination_reason, outcome.error) == ("tool_error", "Broken: OSError: no disk")
    assert [counter.closed for counter in Counter.made] == [1]


async def test_a_close_that_raises_costs_nothing_and_the_others_are_closed(caplog: Any) -> None:
    class Messy:
        def work(self) -> None: ...

        def close(self) -> None:
            raise OSError("stuck")

    class MessyEnv(Env):
        tools = (Counter, Messy)

    outcome = (await run(MessyEnv(), calls("add")))["r0"]
    assert (outcome.termination_reason, outcome.rewards) == ("finished", {"count": 6.0})
    assert [counter.closed for counter in Counter.made] == [1]
    assert "closing the tools of Messy failed" in caplog.text


class Empty:
    def close(self) -> None: ...


class Demanding:
    def __init__(self, host: str, port: int) -> None: ...

    def work(self) -> None: ...


class KeywordOnly:
    def __init__(self, *, example: object) -> None: ...

    def work(self) -> None: ...


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (Empty, "Empty has no public methods that could be tools"),
        (Demanding, "Demanding.__init__ wants host, port; the tools of a rollout are made with its example"),
        (KeywordOnly, "KeywordOnly.__init__ wants example"),
    ],
)
def test_classes_that_cannot_be_made_for_a_rollout_are_refused(cls: type, words: str) -> None:
    class Refused(Env):
        tools = (cls,)

    with pytest.raises(TypeError, match=words):
        Refused()


def test_an_init_may_take_nothing_the_example_or_an_optional_example() -> None:
    class Nothing:
        def __init__(self, size: int = 3, *rest: int) -> None: ...

        def work(self) -> None: ...

    class Optional:
        def __init__(self, example: object = None) -> None: ...

        def work(self) -> None: ...

    assert [read_toolset(cls).takes_example for cls in (Nothing, Optional, Counter)] == [False, True, True]


async def test_outside_of_a_rollout_the_tools_are_listed_but_have_no_instance() -> None:
    env = Env()
    assert [tool["function"]["name"] for tool in await env.list_tools()] == ["add", "wait", "quit", "double"]
    with pytest.raises(LookupError, match="no rollout of Env runs here that has tools of Counter"):
        env.toolset(Counter)
    assert env.function_tools == {}


def test_an_environment_pickles_after_its_tools_were_read() -> None:
    env = pickle.loads(pickle.dumps(Env()))
    assert list(env.rollout_tools()) == ["add", "wait", "quit", "double"]


async def test_tools_that_are_set_later_replace_those_of_before() -> None:
    env = Env()
    env.tools = (FunctionTool(function=print, name="say", parameters={"type": "object"}),)
    assert [tool["function"]["name"] for tool in await env.list_tools()] == ["say"]


async def test_methods_of_the_environment_may_have_settings() -> None:
    class Own(Env):
        def note(self, text: str) -> str:
            self.noted = text
            return text

        tools = (FunctionTool(function=note, timeout_seconds=5),)

        async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
            return {"x": 1.0}

    env = Own()
    await run(env, calls("note", text="hi"))
    assert env.noted == "hi" and list(env.function_tools["note"].parameters["properties"]) == ["text"]


def test_a_run_tool_that_takes_a_tools_own_names_is_refused_with_the_way_out() -> None:
    def note(rollout_id: str) -> None: ...

    class Clash(Env):
        tools = (note,)

        async def run_tool(self, rollout_id: str, tool_name: str, **arguments: Any) -> object:  # type: ignore[override]
            return None

    class Fine(Clash):
        async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
            return None

    with pytest.raises(
        ValueError, match=r"parameter called 'rollout_id', which run_tool of Clash takes .* /, \*\*"
    ):
        Clash()
    Fine()


# --- sources ---------------------------------------------------------------------------------------


class Source:
    """Gives one tool a rollout and keeps a diary."""

    name = "diary"

    def __init__(self, *, fails: str = "") -> None:
        self.diary: list[str] = []
        self.fails = fails

    def open(self, rollout_id: str, example: Example[Any]) -> Any:
        return self._opened(rollout_id, example)

    @asynccontextmanager
    async def _opened(self, rollout_id: str, example: Example[Any]) -> AsyncIterator[Sequence[FunctionTool]]:
        self.diary.append(f"open {rollout_id} {example.id}")
        task = asyncio.current_task()

        def write(text: str) -> None:
            """Write it down."""
            self.diary.append(text)

        if self.fails == "open":
            raise OSError("no paper")
        try:
            yield "write" if self.fails == "type" else [FunctionTool(function=write)]  # type: ignore[misc]
        finally:
            self.diary.append(f"left by the same task: {asyncio.current_task() is task}")
            if self.fails == "leave":
                raise OSError("no ink")

    async def aclose(self) -> None:
        self.diary.append("closed")


class SourceEnv(Env):
    def __init__(self, *sources: Any) -> None:
        super().__init__()
        self.tools = (Counter, *sources)

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        self.tools[1].diary.append("scored")
        return {"x": 1.0}


async def test_a_source_is_open_from_before_the_first_turn_until_after_the_reward() -> None:
    source = Source()
    assert isinstance(source, ToolSource)
    outcome = (await run(SourceEnv(source), calls("write", text="dear")))["r0"]
    assert outcome.rewards == {"x": 1.0}
    assert source.diary == ["open r0 e", "dear", "scored", "left by the same task: True", "closed"]


@pytest.mark.parametrize(
    ("fails", "reason", "error"),
    [
        ("open", "tool_error", "diary: OSError: no paper"),
        ("type", "tool_error", "diary: TypeError: a source yields FunctionTools"),
        ("leave", "finished", None),
    ],
)
async def test_a_source_that_fails_costs_the_rollout_and_closes_the_rest(
    fails: str, reason: str, error: Any
) -> None:
    outcome = (await run(SourceEnv(Source(fails=fails))))["r0"]
    assert (outcome.termination_reason, outcome.error) == (reason, error)
    assert [counter.closed for counter in Counter.made] == [1]


async def test_two_sources_with_one_tool_name_are_told_apart_by_a_prefix() -> None:
    first, second = Source(), Source()
    outcome = (await run(SourceEnv(first, second)))["r0"]
    assert outcome.termination_reason == "tool_error"
    assert outcome.error == "two tools are called 'write'; give a source a prefix"
    assert first.diary[-2:] == second.diary[-2:] == ["left by the same task: True", "closed"]


def test_what_is_neither_function_class_nor_source_is_refused() -> None:
    class Odd(Env):
        tools = (object(),)

    with pytest.raises(TypeError, match="tools holds functions, not object"):
        Odd()


# --- calls -----------------------------------------------------------------------------------------


class CallEnv(Env):
    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        self.told = [message["content"] for message in rollout.messages if message["role"] == "tool"]
        return {"x": 1.0}


async def test_a_tools_own_time_limit_wins_over_the_environments() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def patient() -> str:
        await asyncio.sleep(0.05)
        return "here"

    class Timed(CallEnv):
        tools = (
            FunctionTool(function=forever, timeout_seconds=0.02),
            FunctionTool(function=patient, timeout_seconds=math.inf),
            FunctionTool(function=forever, name="default"),
        )
        tool_timeout_seconds = 0.01

    env = Timed()
    await run(env, calls("forever", "patient", "default"))
    assert env.told == [
        "Tool 'forever' took longer than 0.02 seconds and was stopped.",
        "here",
        "Tool 'default' took longer than 0.01 seconds and was stopped.",
    ]


async def test_an_exclusive_tool_never_runs_beside_others() -> None:
    running = 0
    seen: list[tuple[str, int]] = []

    def step_called(name: str) -> Any:
        async def step() -> str:
            nonlocal running
            running += 1
            await asyncio.sleep(0)
            seen.append((name, running))
            await asyncio.sleep(0)
            running -= 1
            return name

        return FunctionTool(function=step, name=name, exclusive=name == "alone")

    class Parallel(CallEnv):
        tools = tuple(map(step_called, ("a", "b", "alone")))
        parallel_tool_calls = True

    env = Parallel()
    await run(env, calls("a", "b", "alone", "a", "alone", "alone"))
    assert env.told == ["a", "b", "alone", "a", "alone", "alone"]
    assert seen == [("a", 2), ("b", 2), ("alone", 1), ("a", 1), ("alone", 1), ("alone", 1)]


async def test_a_results_limit_is_the_environments_or_the_tools_own() -> None:
    def long() -> str:
        return "x" * 1000

    class Limited(CallEnv):
        tools = (long, FunctionTool(function=long, name="longer", max_result_chars=900))
        max_result_chars = 10

    env = Limited()
    await run(env, calls("long", "longer"))
    note = "\n[cut: the first {} characters of 1,000 characters]"
    assert env.told == ["x" * 10 + note.format(10), "x" * 1000]
    for limit in (0, 10.5, float("inf")):  # half a character, or no end to count to
        with pytest.raises(
            ValueError, match=f"max_result_chars must be a positive integer or None, not {limit}"
        ):
            type("Wrong", (Limited,), {"max_result_chars": limit})()


async def test_an_overridden_run_tool_gets_what_fits_and_may_ask_the_default() -> None:
    class Logged(CallEnv):
        async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
            return f"{tool_name}={await super().run_tool(rollout_id, tool_name, **arguments)}"

    env = Logged()
    await run(env, calls("add", by=2), calls("add", by="x"))
    assert env.told[0] == "add=7"
    assert (
        env.told[1]
        == "Invalid arguments for tool 'add': 'by' must be integer, not \"x\". Its parameters: 'by'."
    )


async def test_a_schema_that_contains_itself_in_list_tools_ends_the_rollout_with_words() -> None:
    circular: dict[str, Any] = {"type": "object"}
    circular["properties"] = {"a": circular}

    class Circular(CallEnv):
        async def list_tools(self) -> Any:
            return [{"type": "function", "function": {"name": "t", "parameters": circular}}]

    outcome = (await run(Circular()))["r0"]
    assert outcome.termination_reason == "tool_error"
    assert "tool 't': parameters.properties.a contains itself" in (outcome.error or "")


async def test_who_lists_and_runs_tools_alone_may_keep_definitions_under_tools() -> None:
    class Alone(CallEnv):
        tools = ({"type": "function", "function": {"name": "go"}},)

        async def list_tools(self) -> Any:
            return self.tools

        async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
            return tool_name

    env = Alone()
    await run(env, calls("go"))
    assert env.told == ["go"]
    with pytest.raises(TypeError, match="tools holds functions, not dict"):
        type("Half", (CallEnv,), {"tools": Alone.tools, "list_tools": Alone.list_tools})()


async def test_tools_may_be_called_like_arguments_of_ours() -> None:
    def say(text: str) -> str:
        return text

    names = ("self", "rollout_id", "tool_name", "arguments", "kwargs", "run_tool")

    class Named(CallEnv):
        tools = tuple(FunctionTool(function=say, name=name) for name in names)

    env = Named()
    await run(env, calls(*names, text="hi"))
    assert env.told == ["hi"] * 6


# --- closing ---------------------------------------------------------------------------------------


async def test_a_clean_up_that_hangs_is_left_after_its_time() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"not done after 0\.05 seconds"):
        await see_through(hang(), seconds=0.05)


async def test_what_a_clean_up_raises_is_raised() -> None:
    async def fail() -> None:
        raise OSError("x")

    with pytest.raises(OSError, match="x"):
        await see_through(fail())
