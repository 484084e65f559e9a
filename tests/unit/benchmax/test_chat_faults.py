"""What can go wrong in one chat rollout is told to the model or becomes that rollout's outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    RewardMap,
    RolloutFailure,
    RolloutOutcome,
    RolloutRequest,
    StaticBearerAuth,
)
from benchmax.envs.base.rollout import own_copy
from benchmax.envs.observe import observe_rollouts
from benchmax.testing import ChatServer, Fault, RawReply, ScriptedRequest, function_call
from benchmax.testing.replies import Answer

SAYS_42: Answer = {"content": "42"}


class ChatEnv(BaseEnv):
    max_turns = 4
    model_retries = 0
    model_retry_seconds = 0.0

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        return Dataset([])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
        self.last = rollout
        return {"x": 1.0}


async def run(
    env: BaseEnv, script: Any, count: int = 1, payload: Mapping[str, Any] | None = None
) -> tuple[list[RolloutOutcome], list[ScriptedRequest]]:
    payload = payload or {"prompt_messages": [{"role": "user", "content": "6*7?"}]}
    async with ChatServer(script) as server:
        requests = [
            RolloutRequest(f"r{i}", Example("e", payload), "m", server.base_url, StaticBearerAuth(f"k{i}"))
            for i in range(count)
        ]
        outcomes = await env.run_group(requests)
        await env.aclose()
    return list(outcomes.values()), server.requests


def tool_texts(requests: Sequence[ScriptedRequest]) -> list[str]:
    return [message["content"] for message in requests[-1].body["messages"] if message["role"] == "tool"]


# --- rewards -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [{"x": float("nan")}, {"x": "1"}, {"x": 1j}, [1.0], "good", {"": 1.0}], ids=repr
)
async def test_a_bad_reward_costs_only_its_own_rollout(bad: Any) -> None:
    class Env(ChatEnv):
        async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
            return bad if rollout.rollout_id == "r1" else {"x": 1.0}

    (good, failed), _ = await run(Env(), [SAYS_42], count=2)
    assert good == RolloutOutcome({"x": 1.0}, "finished")
    assert (failed.rewards, failed.termination_reason) == ({}, "reward_error") and failed.error


async def test_a_budget_stop_with_a_broken_reward_is_kept_from_the_group_scorer() -> None:
    class Env(ChatEnv):
        async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
            if rollout.rollout_id == "r1":
                raise KeyError("x")
            return {"x": 1.0}

        async def compute_group_rewards(self, rollouts: Sequence[BaseRollout]) -> Mapping[str, RewardMap]:
            return {rollout.rollout_id: {"g": 1.0} for rollout in rollouts}

    outcomes, _ = await run(Env(), [{"content": "4", "finish_reason": "length"}], count=2)
    assert outcomes[0] == RolloutOutcome({"x": 1.0, "g": 1.0}, "output_exceeded")
    assert outcomes[1] == RolloutOutcome({}, "output_exceeded", "KeyError: 'x'")


async def test_a_plain_def_reward_is_accepted() -> None:
    class Env(ChatEnv):
        def compute_reward(self, rollout: BaseRollout) -> RewardMap:  # type: ignore[override]
            return {"x": 0.5}

    (outcome,), _ = await run(Env(), [SAYS_42])
    assert outcome.rewards == {"x": 0.5}


# --- hooks around the conversation -----------------------------------------------------------------


async def test_a_broken_list_tools_fails_only_its_own_rollout() -> None:
    class Env(ChatEnv):
        calls = 0

        async def list_tools(self) -> Sequence[Any]:
            self.calls += 1
            if self.calls == 2:
                raise OSError("no schema")
            return [{"name": "flat"}] if self.calls == 3 else []

    (good, broken, malformed), _ = await run(Env(), [SAYS_42], count=3)
    assert good.rewards == {"x": 1.0}
    assert broken == RolloutOutcome({}, "tool_error", "list_tools: OSError: no schema")
    assert malformed.termination_reason == "tool_error" and "list_tools" in str(malformed.error)


async def test_a_broken_rollout_context_fails_only_its_own_rollout() -> None:
    class Env(ChatEnv):
        @asynccontextmanager
        async def rollout_context(self, rollout_id: str, example: Example[Any]) -> AsyncIterator[None]:
            if rollout_id == "r1":
                raise OSError("no disk")
            if rollout_id == "r2":
                raise RolloutFailure("harness_error", "no agent")
            yield

    (good, broken, failed), _ = await run(Env(), [SAYS_42], count=3)
    assert good.rewards == {"x": 1.0}
    assert broken == RolloutOutcome({}, "sandbox_error", "rollout_context: OSError: no disk")
    assert failed == RolloutOutcome({}, "harness_error", "no agent")


async def test_the_context_is_open_during_the_reward_and_a_failed_clean_up_keeps_the_score() -> None:
    class Env(ChatEnv):
        is_open = False

        @asynccontextmanager
        async def rollout_context(self, rollout_id: str, example: Example[Any]) -> AsyncIterator[None]:
            self.is_open = True
            yield
            self.is_open = False
            raise OSError("cannot remove the folder")

        async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
            return {"open": float(self.is_open)}

    (outcome,), _ = await run(Env(), [SAYS_42])
    assert outcome == RolloutOutcome({"open": 1.0}, "finished")


async def test_siblings_share_no_nested_object() -> None:
    payload = {
        "prompt_messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "state": {"board": [0, 0]},
    }

    class Env(ChatEnv):
        seen: Any = None

        @asynccontextmanager
        async def rollout_context(self, rollout_id: str, example: Example[Any]) -> AsyncIterator[None]:
            example.payload["state"]["board"][0] += 1
            example.payload["prompt_messages"].clear()
            yield

        async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
            rollout.messages[0]["content"][0]["text"] = "changed"
            return {"moves": rollout.example_args["state"]["board"][0]}

    outcomes, requests = await run(Env(), [SAYS_42], count=3, payload=payload)
    assert [outcome.rewards for outcome in outcomes] == [{"moves": 1}] * 3
    assert payload["state"] == {"board": [0, 0]}
    assert all(request.body["messages"] == payload["prompt_messages"] for request in requests)
    assert payload["prompt_messages"][0]["content"] == [{"type": "text", "text": "hi"}]  # type: ignore[index]


# --- what the model says -----------------------------------------------------------------------------


async def test_reasoning_and_refusal_stay_in_the_transcript() -> None:
    said = {"content": "42", "reasoning_content": "6 times 7", "refusal": None}
    env = ChatEnv()
    await run(env, [said])
    assert env.last.messages[-1] == {"role": "assistant", "content": "42", "reasoning_content": "6 times 7"}
    await run(env, [{"content": None, "refusal": "I will not"}])
    assert env.last.messages[-1] == {"role": "assistant", "content": None, "refusal": "I will not"}


async def test_a_custom_tool_call_is_answered_in_words() -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    (outcome,), requests = await run(ChatEnv(), [{"tool_calls": [custom]}, SAYS_42])
    assert outcome.rewards == {"x": 1.0}
    assert requests[1].body["messages"][1]["tool_calls"] == [custom]
    assert "'custom'" in tool_texts(requests)[0]


async def test_odd_calls_are_kept_in_the_form_that_servers_accept() -> None:
    def now() -> str:
        return "noon"

    class Env(ChatEnv):
        tools = (now,)

    odd = {"id": None, "index": 0, "function": {"name": "now", "arguments": {}}}
    _, requests = await run(Env(), [{"tool_calls": [odd]}, SAYS_42])
    assistant, answer = requests[1].body["messages"][1:]
    assert assistant["tool_calls"] == [function_call("call_0_0", "now", "{}")]
    assert answer == {"role": "tool", "tool_call_id": "call_0_0", "content": "noon"}


# --- passing trouble ---------------------------------------------------------------------------------


class PatientEnv(ChatEnv):
    model_retries = 2


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_passing_trouble_is_tried_again(status: int) -> None:
    (outcome,), requests = await run(PatientEnv(), [Fault(status=status), Fault(status=status), SAYS_42])
    assert outcome == RolloutOutcome({"x": 1.0}, "finished") and len(requests) == 3


async def test_retries_are_bounded() -> None:
    (outcome,), requests = await run(PatientEnv(), [Fault(status=503, message="busy")])
    assert outcome == RolloutOutcome({}, "model_error", "HTTP 503: busy") and len(requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_final(status: int) -> None:
    (outcome,), requests = await run(PatientEnv(), [Fault(status=status, message="no")])
    assert outcome == RolloutOutcome({}, "model_error", f"HTTP {status}: no") and len(requests) == 1


@pytest.mark.parametrize("status", [200, 400, 503])
async def test_a_reply_nested_too_deep_to_read_is_model_error(status: int) -> None:
    (outcome,), _ = await run(PatientEnv(), [RawReply(body=b"[" * 100_000, status=status)])
    assert outcome.termination_reason == "model_error" and "[[[[" in str(outcome.error)


async def test_retry_after_zero_is_honoured_over_the_pause() -> None:
    class SlowPause(PatientEnv):
        model_retry_seconds = 3600.0

    script = [Fault(status=429, headers={"Retry-After": "0"}), SAYS_42]
    (outcome,), requests = await run(SlowPause(), script)
    assert outcome.rewards == {"x": 1.0} and len(requests) == 2


async def test_a_server_that_asks_for_an_hour_is_given_up() -> None:
    script = [Fault(status=429, headers={"Retry-After": "3600"}), SAYS_42]
    (outcome,), requests = await run(PatientEnv(), script)
    assert outcome.termination_reason == "model_error" and len(requests) == 1


async def test_no_server_at_all_is_model_error_with_the_address() -> None:
    async with ChatServer([SAYS_42]) as server:
        base_url = server.base_url
    example = Example("e", {"prompt_messages": [{"role": "user", "content": "x"}]})
    env = PatientEnv()
    outcome = (await env.run_group([RolloutRequest("r", example, "m", base_url, StaticBearerAuth("k"))]))["r"]
    await env.aclose()
    assert outcome.termination_reason == "model_error" and "no connection" in str(outcome.error)


# --- time limits ---------------------------------------------------------------------------------------


async def forever() -> str:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_tool_over_time_is_told_to_the_model() -> None:
    class Env(ChatEnv):
        tools = (forever,)
        tool_timeout_seconds = 0.02

    call = {"tool_calls": [function_call("c1", "forever")]}
    (outcome,), requests = await run(Env(), [call, SAYS_42])
    assert outcome.rewards == {"x": 1.0}
    assert tool_texts(requests) == ["Tool 'forever' took longer than 0.02 seconds and was stopped."]


async def test_a_plain_function_over_time_does_not_hold_up_the_rollout() -> None:
    released = threading.Event()

    def slow() -> str:
        released.wait(timeout=60)
        return "late"

    class Env(ChatEnv):
        tools = (slow,)
        tool_timeout_seconds = 0.02

    (outcome,), requests = await run(Env(), [{"tool_calls": [function_call("c1", "slow")]}, SAYS_42])
    released.set()
    assert outcome.rewards == {"x": 1.0} and "took longer" in tool_texts(requests)[0]


def make_endless(skip_seconds: Callable[[float], None]) -> Callable[[], Awaitable[str]]:
    """Return a tool that outlasts a rollout of a minute."""

    async def endless() -> str:
        skip_seconds(61)
        return await forever()

    return endless


async def test_a_rollout_over_time_keeps_its_transcript(skip_seconds: Callable[[float], None]) -> None:
    class Env(ChatEnv):
        tools = (make_endless(skip_seconds),)
        rollout_timeout_seconds = 60.0

    class Observer:
        def on_call(self, *call: Any) -> None: ...

        def on_attempt(self, attempt: Any) -> None:
            self.attempt = attempt

    observer = Observer()
    with observe_rollouts(observer):
        (outcome,), _ = await run(Env(), [{"tool_calls": [function_call("c1", "endless")]}])
    assert outcome == RolloutOutcome({}, "harness_timeout", "the rollout took longer than 60.0 seconds")
    assert observer.attempt.messages[-1]["tool_calls"][0]["function"]["name"] == "endless"


async def test_a_clean_up_that_fails_after_the_time_limit_does_not_break_the_group(
    skip_seconds: Callable[[float], None],
) -> None:
    class Env(ChatEnv):
        tools = (make_endless(skip_seconds),)
        rollout_timeout_seconds = 60.0

        @asynccontextmanager
        async def rollout_context(self, rollout_id: str, example: Example[Any]) -> AsyncIterator[None]:
            try:
                yield
            finally:
                raise OSError("cannot remove the folder")

    (outcome,), _ = await run(Env(), [{"tool_calls": [function_call("c1", "endless")]}])
    assert outcome == RolloutOutcome({}, "harness_timeout", "the rollout took longer than 60.0 seconds")


async def test_a_reward_over_time_is_reward_error(skip_seconds: Callable[[float], None]) -> None:
    class Env(ChatEnv):
        rollout_timeout_seconds = 60.0

        async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
            skip_seconds(61)
            await forever()
            return {}

    (outcome,), _ = await run(Env(), [SAYS_42])
    assert outcome.termination_reason == "reward_error" and "longer than 60.0" in str(outcome.error)


def test_a_copy_shares_nothing_that_can_change() -> None:
    original = {"a": [1, {"b": [None, "x"]}], "s": {1, 2}, "t": ([0],)}
    copied = own_copy(original)
    assert copied == original
    copied["a"][1]["b"].append(1)
    copied["s"].add(3)
    copied["t"][0].append(1)
    assert original == {"a": [1, {"b": [None, "x"]}], "s": {1, 2}, "t": ([0],)}
