"""How attempts and groups end, to the word: what is logged, what is waited for, what is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    Environment,
    Example,
    RolloutAttempt,
    RolloutFailure,
    RolloutOutcome,
    RolloutRequest,
    StaticBearerAuth,
    ValidationDiagnostic,
)
from benchmax.envs.tool_arguments import ArgumentFault, check_arguments, parse_arguments
from benchmax.testing import ChatServer, ScriptedRequest
from benchmax.testing.replies import Answer

AUTH = StaticBearerAuth("k")
PROMPT = {"prompt_messages": [{"role": "user", "content": "q"}]}


def ask(base_url: str = "http://x", rollout_id: str = "r1") -> RolloutRequest[Any]:
    return RolloutRequest(rollout_id, Example("e", PROMPT), "m", base_url, AUTH)


class Chat(BaseEnv):
    """One turn, one point."""

    max_turns = 1

    async def create_dataset(self, split: Any, base_dir: Any, *, max_examples: Any = None) -> Dataset[Any]:
        return Dataset([])

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        return {"x": 1.0}


async def attempted(env: BaseEnv, script: Any) -> BaseRollout:
    async with ChatServer(script) as server:
        rollout = await env.run_rollout(ask(server.base_url))
        await env.aclose()
    return rollout


def records_of(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == name]


async def hang(request: ScriptedRequest) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError("never answered")


# --- clean-up, interruption, time limits ------------------------------------------------------


class LeavesMess(Chat):
    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            raise KeyError("left behind")


async def test_a_clean_up_that_fails_after_the_score_is_logged_and_the_score_stands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rollout = await attempted(LeavesMess(), [{"content": "hi"}])
    assert (rollout.termination_reason, rollout.rewards, rollout.error) == ("finished", {"x": 1.0}, None)
    (record,) = records_of(caplog, "benchmax.envs.base.attempt")
    assert (record.levelname, record.getMessage()) == ("WARNING", "clean-up after rollout r1 failed")
    assert record.exc_info and isinstance(record.exc_info[1], KeyError)


def make_endless(skip_seconds: Callable[[float], None]) -> Callable[[ScriptedRequest], Awaitable[Answer]]:
    """Return a model that outlasts a rollout of a minute."""

    async def endless(request: ScriptedRequest) -> Answer:
        skip_seconds(61)
        return await hang(request)

    return endless


async def test_a_clean_up_that_fails_after_the_time_limit_is_logged_and_the_limit_is_the_reason(
    caplog: pytest.LogCaptureFixture, skip_seconds: Callable[[float], None]
) -> None:
    env = LeavesMess()
    env.rollout_timeout_seconds = 60.0
    rollout = await attempted(env, make_endless(skip_seconds))
    assert (rollout.termination_reason, rollout.rewards) == ("harness_timeout", {})
    assert rollout.error == "the rollout took longer than 60.0 seconds"
    (record,) = records_of(caplog, "benchmax.envs.base.attempt")
    assert (record.levelname, record.getMessage()) == ("WARNING", "clean-up after rollout r1 failed")
    assert record.exc_info and isinstance(record.exc_info[1], KeyError)


async def test_a_time_limit_alone_is_nothing_to_log(
    caplog: pytest.LogCaptureFixture, skip_seconds: Callable[[float], None]
) -> None:
    env = Chat()
    env.rollout_timeout_seconds = 60.0
    rollout = await attempted(env, make_endless(skip_seconds))
    assert (rollout.termination_reason, rollout.rewards) == ("harness_timeout", {})
    assert records_of(caplog, "benchmax.envs.base.attempt") == []


class Swallows(Chat):
    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Any) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            return


async def test_a_context_that_swallows_the_cancellation_leaves_an_interrupted_rollout() -> None:
    asked = asyncio.Event()

    async def hang_when_asked(request: ScriptedRequest) -> Answer:
        asked.set()
        return await hang(request)

    env = Swallows()
    async with ChatServer(hang_when_asked) as server:
        running = asyncio.create_task(env.run_rollout(ask(server.base_url)))
        await asked.wait()
        running.cancel()
        rollout = await running
        await env.aclose()
    assert (rollout.termination_reason, rollout.rewards) == ("unknown", {})
    assert rollout.error == "the rollout was interrupted"


class Patient(Chat):
    model_retries = 0


@pytest.mark.parametrize(
    ("reply", "reason", "error"),
    [
        ({"content": "hi", "finish_reason": "content_filter"}, "content_filter", None),
        (
            {"content": "hi", "finish_reason": None},
            "model_error",
            "the reply has neither tool calls nor a finish reason",
        ),
    ],
)
async def test_a_rollout_that_cannot_be_scored_has_no_rewards_and_waits_for_none(
    reply: Any, reason: str, error: str | None
) -> None:
    rollout = await attempted(Patient(), [reply])
    assert (rollout.termination_reason, rollout.rewards, rollout.error) == (reason, {}, error)


async def test_a_scorable_rollout_without_own_rewards_waits_for_the_groups() -> None:
    class Silent(Chat):
        async def compute_reward(self, rollout: BaseRollout) -> None:
            assert rollout.rewards is None

    rollout = await attempted(Silent(), [{"content": "hi"}])
    assert (rollout.termination_reason, rollout.rewards, rollout.error) == ("finished", None, None)


# --- groups -----------------------------------------------------------------------------------


class Scripted(Environment[Any, RolloutAttempt]):
    """Does for each rollout what the function of its id does."""

    def __init__(self, **courses: Callable[[], Any]) -> None:
        self.courses = courses
        self.answer: Any = None

    async def create_dataset(self, split: Any, base_dir: Path, *, max_examples: int | None = None) -> Any:
        return Dataset([])

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        await self.courses[request.rollout_id]()
        return RolloutAttempt(rollout_id=request.rollout_id, termination_reason="finished")

    async def compute_group_rewards(self, rollouts: Sequence[RolloutAttempt]) -> Any:
        return self.answer

    async def run(self) -> dict[str, RolloutOutcome]:
        return await self.run_group([ask(rollout_id=name) for name in self.courses])


def raising(error: Exception) -> Callable[[], Any]:
    async def course() -> None:
        raise error

    return course


async def at_once() -> None:
    return None


async def test_a_failed_rollout_is_logged_with_its_reason_and_a_finished_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "benchmax.envs.group")
    env = Scripted(a=at_once, b=raising(RolloutFailure("sandbox_error", "no disk")))
    env.answer = {"a": {"x": 1.0}}
    outcomes = await env.run()
    assert outcomes == {
        "a": RolloutOutcome({"x": 1.0}, "finished"),
        "b": RolloutOutcome({}, "sandbox_error", "no disk"),
    }
    (record,) = records_of(caplog, "benchmax.envs.group")
    assert record.levelname == "INFO"
    assert record.getMessage() == (
        "benchmax.rollout.terminated rollout_id=b termination_reason=sandbox_error error=no disk"
    )


async def test_the_first_broken_rollout_is_raised_and_the_others_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second, third = KeyError("first"), KeyError("second"), LookupError("third")
    env = Scripted(a=at_once, b=raising(first), c=raising(second), d=raising(third))
    with pytest.raises(KeyError) as caught:
        await env.run()
    assert caught.value is first
    records = records_of(caplog, "benchmax.envs.group")
    assert [(record.levelname, record.getMessage()) for record in records] == [
        ("ERROR", "rollout c broke its environment too"),
        ("ERROR", "rollout d broke its environment too"),
    ]
    assert [record.exc_info and record.exc_info[1] for record in records] == [second, third]


async def test_a_broken_rollout_is_raised_only_once_its_siblings_have_ended() -> None:
    ended: list[str] = []

    async def slow() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        ended.append("b")

    with pytest.raises(KeyError):
        await Scripted(a=raising(KeyError("a")), b=slow).run()
    assert ended == ["b"]


async def test_a_cancelled_group_waits_for_every_clean_up() -> None:
    all_started = asyncio.Barrier(4)
    ended: list[int] = []

    def cleaning(turns: int) -> Callable[[], Any]:
        async def course() -> None:
            await all_started.wait()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(turns):
                    await asyncio.sleep(0)
                ended.append(turns)

        return course

    group = asyncio.create_task(Scripted(a=cleaning(1), b=cleaning(30), c=cleaning(10)).run())
    await all_started.wait()
    await asyncio.sleep(0)  # into the wait that the cancellation ends
    group.cancel()
    with pytest.raises(asyncio.CancelledError):
        await group
    assert ended == [1, 10, 30]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([{"x": 1.0}], "TypeError: compute_group_rewards must return a mapping or None, not list"),
        (
            {"a": {"x": 1.0}, "z": {"x": 1.0}, 7: {"x": 1.0}},
            "ValueError: compute_group_rewards returned misaligned rollout IDs: missing=['b', 'c'], unknown=['z', 7]",
        ),
        (
            {"a": {"x": 1.0}, "c": {"x": 0.0}},
            "ValueError: compute_group_rewards returned misaligned rollout IDs: missing=['b'], unknown=[]",
        ),
    ],
)
async def test_a_group_answer_for_the_wrong_ids_scores_nobody_and_says_whose(answer: Any, error: str) -> None:
    env = Scripted(c=at_once, a=at_once, b=at_once)
    env.answer = answer
    outcomes = await env.run()
    assert list(outcomes) == ["c", "a", "b"]
    assert set(outcomes.values() and [(o.termination_reason, o.error) for o in outcomes.values()]) == {
        ("group_reward_error", error)
    }
    assert all(outcome.rewards == {} for outcome in outcomes.values())


async def test_a_rollout_without_any_rewards_is_told_what_to_write() -> None:
    outcomes = await Scripted(a=at_once).run()
    assert outcomes["a"] == RolloutOutcome(
        {},
        "group_reward_error",
        "ValueError: rollout 'a' has no rewards; implement compute_reward or compute_group_rewards",
    )


# --- words of refusal -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Example("", {}), "example id must be a non-empty string"),
        (
            lambda: RolloutRequest(" ", Example("e", {}), "m", "u", AUTH),
            "rollout_id must be a non-empty string",
        ),
        (lambda: RolloutRequest("r", Example("e", {}), "", "u", AUTH), "model must be a non-empty string"),
        (lambda: RolloutRequest("r", Example("e", {}), "m", "", AUTH), "base_url must be a non-empty string"),
        (
            lambda: RolloutRequest("r", Example("e", {}), "m", "u", AUTH, split="test"),  # type: ignore[arg-type]
            "split must be 'train' or 'eval', not 'test'",
        ),
        (
            lambda: RolloutAttempt(rollout_id="", termination_reason="x"),
            "rollout_id must be a non-empty string",
        ),
        (
            lambda: RolloutAttempt(rollout_id="r", termination_reason=" "),
            "termination_reason must be a non-empty string",
        ),
        (
            lambda: RolloutAttempt(rollout_id="r", termination_reason="x", error=" "),
            "error must be a non-empty string",
        ),
        (lambda: RolloutOutcome({}, ""), "termination_reason must be a non-empty string"),
        (lambda: RolloutOutcome({}, "x", ""), "error must be a non-empty string"),
        (lambda: RolloutFailure("", "m"), "termination_reason must be a non-empty string"),
        (lambda: RolloutFailure("x", " "), "message must be a non-empty string"),
        (lambda: RolloutFailure("finished", "m"), "a failure cannot have the reason 'finished'"),
    ],
)
def test_a_value_without_its_parts_is_refused_by_the_name_of_the_part(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value) == message


@pytest.mark.parametrize("severity", ["warning", "error"])
def test_a_diagnostic_has_one_of_two_severities(severity: Any) -> None:
    diagnostic = ValidationDiagnostic(severity, "no_data", "There is no data.")
    assert (diagnostic.severity, diagnostic.location) == (severity, None)


def test_a_dataset_shows_its_kind_and_size() -> None:
    class Rows(Dataset[Any]):
        pass

    assert repr(Rows([Example("a", {}), Example("b", {})])) == "Rows(2 examples)"


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"enum": ["c", "f"]}, "k", '\'u\' must be one of ["c", "f"]'),
        ({"enum": (1, 1 + 2j)}, 2, "'u' must be one of [1, \"(1+2j)\"]"),
        ({"type": "string", "enum": ["c"]}, 5, "'u' must be string, not 5"),
        ({"type": ["integer", "null"]}, True, "'u' must be integer or null, not true"),
        ({"type": "number"}, False, "'u' must be number, not false"),
        ({"type": "integer"}, 1.5, "'u' must be integer, not 1.5"),
        ({"type": "boolean"}, 1, "'u' must be boolean, not 1"),
        ({"type": "array"}, {}, "'u' must be array, not {}"),
        ({"type": "object"}, [], "'u' must be object, not []"),
        ({"type": "null"}, "", "'u' must be null, not \"\""),
    ],
)
def test_an_argument_of_another_kind_is_told_with_its_kinds(schema: Any, value: Any, fault: str) -> None:
    with pytest.raises(ArgumentFault) as raised:
        check_arguments("t", {"u": value}, {"properties": {"u": schema}})
    assert str(raised.value) == f"Invalid arguments for tool 't': {fault}. Its parameters: 'u'."


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "boolean"}, True),
        ({"type": "integer"}, 2.0),
        ({"type": "number"}, 2),
        ({"type": ["string", "null"]}, None),
        ({"type": "colour"}, "red"),
        ({"type": 7}, "red"),
        ({"enum": "abc"}, "z"),
        ({"enum": [None]}, None),
        ("odd", "z"),
    ],
)
def test_an_argument_that_fits_or_cannot_be_told_is_taken(schema: Any, value: Any) -> None:
    check_arguments("t", {"u": value}, {"properties": {"u": schema}})


def test_what_is_wrong_with_the_json_is_told_without_its_place() -> None:
    with pytest.raises(ArgumentFault) as raised:
        parse_arguments('{"key')
    assert str(raised.value) == "Invalid JSON tool arguments: Unterminated string starting at"


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_constant_that_json_lacks_is_told(constant: str) -> None:
    with pytest.raises(ArgumentFault) as raised:
        parse_arguments(f'{{"a": {constant}}}')
    assert str(raised.value) == f"Invalid JSON tool arguments: {constant} is not JSON"
