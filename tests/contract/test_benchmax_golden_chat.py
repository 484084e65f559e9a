"""Golden behaviours of BaseEnv against a real HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    InjectedAuth,
    ModelAuth,
    RewardMap,
    RolloutFailure,
    RolloutOutcome,
    RolloutRequest,
    StaticBearerAuth,
)
from benchmax.testing import ChatServer, Fault, RawReply, ScriptedRequest, function_call
from benchmax.testing.replies import Answer

PROMPT = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is 6*7?"}]
EXAMPLE = Example("e1", {"prompt_messages": PROMPT, "answer": "42"})
LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look a key up.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    },
}
SAYS_42 = {"content": "42"}


class ChatEnv(BaseEnv):
    max_turns = 4
    model_retries = 0

    def __init__(
        self,
        *,
        tools: Sequence[Any] = (),
        tool: Callable[..., object] | None = None,
        reward: Callable[[BaseRollout], RewardMap | None] = lambda rollout: {"reward": 1.0},
        group: Callable[[Sequence[BaseRollout]], Mapping[str, RewardMap] | None] = lambda rollouts: None,
        **budgets: int,
    ) -> None:
        super().__init__(**budgets)
        self.definitions, self.tool, self.reward, self.group = tools, tool, reward, group
        self.rollouts: dict[str, BaseRollout] = {}
        self.tool_runs: list[tuple[str, str, dict[str, Any]]] = []

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        return Dataset([EXAMPLE])

    async def list_tools(self) -> Sequence[Any]:
        return self.definitions

    async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
        self.tool_runs.append((rollout_id, tool_name, arguments))
        assert self.tool is not None
        return self.tool(**arguments)

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
        self.rollouts[rollout.rollout_id] = rollout
        return self.reward(rollout)

    async def compute_group_rewards(self, rollouts: Sequence[BaseRollout]) -> Mapping[str, RewardMap] | None:
        return self.group(rollouts)


Script = Sequence[Answer] | Callable[[ScriptedRequest], Answer]


async def run_group(
    env: BaseEnv,
    script: Script,
    ids: Sequence[str] = ("r0",),
    *,
    auth: Callable[[str], ModelAuth] = lambda rollout_id: StaticBearerAuth(f"key-{rollout_id}"),
    split: DatasetSplit = "train",
) -> tuple[dict[str, RolloutOutcome], list[ScriptedRequest]]:
    async with ChatServer(script) as server:
        requests = [
            RolloutRequest(rollout_id, EXAMPLE, "the-model", server.base_url, auth(rollout_id), split)
            for rollout_id in ids
        ]
        outcomes = await env.run_group(requests)
        await env.aclose()
    return outcomes, server.requests


def of(rollout_id: str, own: Answer, other: Answer = SAYS_42) -> Callable[[ScriptedRequest], Answer]:
    """A script that answers one rollout with `own` and its siblings with `other`."""
    return lambda served: own if served.headers["Authorization"].endswith(f"key-{rollout_id}") else other


async def test_a_request_carries_model_and_messages_and_nothing_else() -> None:
    outcomes, requests = await run_group(ChatEnv(), [SAYS_42], ["r0", "r1"])
    assert [request.body for request in requests] == [{"model": "the-model", "messages": PROMPT}] * 2
    assert {request.path for request in requests} == {"/v1/chat/completions"}
    assert {request.headers["Authorization"] for request in requests} == {"Bearer key-r0", "Bearer key-r1"}
    assert outcomes["r0"] == RolloutOutcome({"reward": 1.0}, "finished")


async def test_a_reply_cut_by_length_is_scored_as_output_exceeded() -> None:
    outcomes, _ = await run_group(ChatEnv(), [{"content": "4", "finish_reason": "length"}])
    assert outcomes["r0"] == RolloutOutcome({"reward": 1.0}, "output_exceeded")


async def test_a_spent_context_after_a_tool_turn_is_scored() -> None:
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: "value")
    call = {"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}
    outcomes, _ = await run_group(
        env, [call, Fault(status=400, code="context_budget_exceeded", message="full")]
    )
    assert (outcomes["r0"].rewards, outcomes["r0"].termination_reason) == (
        {"reward": 1.0},
        "context_exceeded",
    )
    last = env.rollouts["r0"].messages[-1]
    assert last == {"role": "tool", "tool_call_id": "c1", "content": "value"}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Fault(status=400, code="bad_request", message="no such field"), "HTTP 400: no such field"),
        (Fault(status=500, message="overloaded"), "HTTP 500: overloaded"),
        (RawReply(body=b'{"choices": []}'), "no choices"),
        (RawReply(body=b"<html>"), "not JSON"),
        (RawReply(body=b"[]"), "not a JSON object"),
        ({"content": "x", "finish_reason": None}, "finish reason"),
    ],
)
async def test_a_failed_call_is_model_error_after_one_request(reply: Answer, words: str) -> None:
    env = ChatEnv()
    outcomes, requests = await run_group(env, [reply])
    outcome = outcomes["r0"]
    assert (outcome.rewards, outcome.termination_reason) == ({}, "model_error")
    assert words in str(outcome.error) and len(requests) == 1 and env.rollouts == {}


async def test_another_finish_reason_passes_through_unscored() -> None:
    outcomes, _ = await run_group(ChatEnv(), [{"content": "", "finish_reason": "content_filter"}])
    assert (outcomes["r0"].rewards, outcomes["r0"].termination_reason) == ({}, "content_filter")


async def test_unbound_auth_fails_its_own_rollout() -> None:
    def auth(rollout_id: str) -> ModelAuth:
        return InjectedAuth("nobody") if rollout_id == "r1" else StaticBearerAuth("k")

    outcomes, requests = await run_group(ChatEnv(), [SAYS_42], ["r0", "r1"], auth=auth)
    assert outcomes["r0"].rewards == {"reward": 1.0} and len(requests) == 1
    assert outcomes["r1"].termination_reason == "model_error"
    assert "No runtime model-auth provider was injected for 'nobody'." in str(outcomes["r1"].error)


def failing_for(rollout_id: str, error: Exception) -> Callable[[BaseRollout], RewardMap]:
    def reward(rollout: BaseRollout) -> RewardMap:
        if rollout.rollout_id == rollout_id:
            raise error
        return {"reward": 1.0}

    return reward


async def test_a_judge_outage_in_compute_reward_stays_there() -> None:
    env = ChatEnv(reward=failing_for("r1", RolloutFailure("judge_error", "judge is down")))
    outcomes, _ = await run_group(env, [SAYS_42], ["r0", "r1"])
    assert outcomes["r1"] == RolloutOutcome({}, "judge_error", "judge is down")
    assert outcomes["r0"].rewards == {"reward": 1.0}


async def test_a_broken_reward_is_reward_error_for_that_rollout() -> None:
    env = ChatEnv(reward=failing_for("r1", KeyError("answer")))
    outcomes, _ = await run_group(env, [SAYS_42], ["r0", "r1"])
    assert outcomes["r1"] == RolloutOutcome({}, "reward_error", "KeyError: 'answer'")
    assert outcomes["r0"].rewards == {"reward": 1.0}


async def test_a_broken_reward_does_not_hide_a_turn_budget() -> None:
    env = ChatEnv(
        tools=[LOOKUP], tool=lambda key: "v", max_turns=1, reward=failing_for("r0", KeyError("answer"))
    )
    outcomes, _ = await run_group(env, [{"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}])
    assert outcomes["r0"] == RolloutOutcome({}, "max_turns_exceeded", "KeyError: 'answer'")


async def test_a_tool_round_trip() -> None:
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: {"value": 42})
    call = function_call("c1", "lookup", {"key": "a"})
    outcomes, requests = await run_group(env, [{"tool_calls": [call]}, SAYS_42])
    assert requests[0].body == {"model": "the-model", "messages": PROMPT, "tools": [LOOKUP]}
    assert requests[1].body["messages"] == [
        *PROMPT,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"value":42}'},
    ]
    assert env.tool_runs == [("r0", "lookup", {"key": "a"})]
    assert outcomes["r0"].rewards == {"reward": 1.0}


async def test_three_tool_mistakes_of_the_model_are_answered_in_order() -> None:
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: "fine")
    calls = [
        function_call("c1", "nosuch"),
        function_call("c2", "lookup", "{bad"),
        function_call("c3", "lookup", "[1]"),
        function_call("c4", "lookup", {"key": "a"}),
    ]
    outcomes, requests = await run_group(env, [{"tool_calls": calls}, SAYS_42])
    contents = [message["content"] for message in requests[1].body["messages"] if message["role"] == "tool"]
    assert contents[0] == "Unknown tool: nosuch"
    assert contents[1].startswith("Invalid JSON tool arguments: ")
    assert contents[2:] == ["Tool arguments must be a JSON object.", "fine"]
    assert outcomes["r0"].rewards == {"reward": 1.0}


async def test_a_raising_run_tool_ends_its_rollout_only() -> None:
    def tool(key: str) -> str:
        raise RuntimeError("disk full")

    call = {"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}
    env = ChatEnv(tools=[LOOKUP], tool=tool)
    outcomes, _ = await run_group(env, of("r1", call), ["r0", "r1"])
    assert (outcomes["r1"].rewards, outcomes["r1"].termination_reason) == ({}, "tool_error")
    assert "RuntimeError: disk full" in str(outcomes["r1"].error)
    assert outcomes["r0"].rewards == {"reward": 1.0}


async def test_a_tool_may_end_the_rollout_with_its_own_reason() -> None:
    def tool(key: str) -> str:
        raise RolloutFailure("sandbox_error", "box is gone")

    env = ChatEnv(tools=[LOOKUP], tool=tool)
    outcomes, _ = await run_group(env, [{"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}])
    assert outcomes["r0"] == RolloutOutcome({}, "sandbox_error", "box is gone")


async def test_no_tool_budget_means_no_tool_runs() -> None:
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: "v", max_tool_calls=0)
    outcomes, _ = await run_group(env, [{"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}])
    assert outcomes["r0"] == RolloutOutcome({"reward": 1.0}, "tool_budget_exceeded")
    assert env.tool_runs == [] and env.rollouts["r0"].messages[-1]["role"] == "assistant"


async def test_the_batch_over_the_tool_budget_is_not_run_at_all() -> None:
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: "v", max_tool_calls=2)
    one = {"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}
    two = {
        "tool_calls": [
            function_call("c2", "lookup", {"key": "b"}),
            function_call("c3", "lookup", {"key": "c"}),
        ]
    }
    outcomes, _ = await run_group(env, [one, two])
    assert outcomes["r0"].termination_reason == "tool_budget_exceeded" and len(env.tool_runs) == 1


async def test_one_component_from_both_hooks_is_a_group_reward_error() -> None:
    env = ChatEnv(group=lambda rollouts: {rollout.rollout_id: {"reward": 0.5} for rollout in rollouts})
    outcomes, _ = await run_group(env, [SAYS_42], ["r0", "r1"])
    assert all((o.rewards, o.termination_reason) == ({}, "group_reward_error") for o in outcomes.values())


async def test_the_hooks_see_the_split_and_the_other_fields() -> None:
    env = ChatEnv()
    await run_group(env, [SAYS_42], split="eval")
    rollout = env.rollouts["r0"]
    assert (rollout.split, rollout.example_args) == ("eval", {"answer": "42"})
    assert rollout.messages == [*PROMPT, {"role": "assistant", "content": "42"}]


async def test_text_and_image_parts_reach_the_model_unchanged() -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: parts)
    _, requests = await run_group(
        env, [{"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}, SAYS_42]
    )
    assert requests[1].body["messages"][-1]["content"] == parts


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (None, ""),
        ("as is", "as is"),
        ([1, 2], "[1,2]"),
        ([], "[]"),
        (True, "true"),
        (2.5, "2.5"),
        ({"ä": 1}, '{"ä":1}'),
        (Path("a/b"), "a/b"),
    ],
)
async def test_other_tool_results_become_text(result: object, content: str) -> None:
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: result)
    await run_group(env, [{"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}, SAYS_42])
    assert env.rollouts["r0"].messages[-2]["content"] == content


async def test_max_turns_must_be_set() -> None:
    class NoTurns(ChatEnv):
        max_turns = None

    with pytest.raises(ValueError, match="NoTurns must configure max_turns before rollout"):
        await run_group(NoTurns(), [SAYS_42])


@pytest.mark.parametrize("budgets", [{"max_turns": 0}, {"max_turns": True}, {"max_tool_calls": -1}])
def test_budgets_are_checked(budgets: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(budgets))):
        ChatEnv(**budgets)


@pytest.mark.parametrize(
    "payload",
    [[], {}, {"prompt_messages": []}, {"prompt_messages": "hi"}, {"prompt_messages": [{"content": "x"}]}],
)
async def test_a_payload_without_a_prompt_is_a_contract_error(payload: Any) -> None:
    request = RolloutRequest("r", Example("e", payload), "m", "http://127.0.0.1:9", StaticBearerAuth("k"))
    with pytest.raises((TypeError, ValueError)):
        await ChatEnv().run_group([request])


async def test_the_provider_is_asked_before_every_call() -> None:
    class CountingAuth:
        def __init__(self) -> None:
            self.asked: list[str] = []

        async def headers_for_request(self, context: Any) -> Mapping[str, str]:
            self.asked.append(context.rollout_id)
            return {"Authorization": f"Bearer {len(self.asked)}"}

    auth = CountingAuth()
    env = ChatEnv(tools=[LOOKUP], tool=lambda key: "v")
    script = [{"tool_calls": [function_call("c1", "lookup", {"key": "a"})]}, SAYS_42]
    _, requests = await run_group(env, script, auth=lambda rollout_id: auth)
    assert auth.asked == ["r0", "r0"]
    assert [request.headers["Authorization"] for request in requests] == ["Bearer 1", "Bearer 2"]
