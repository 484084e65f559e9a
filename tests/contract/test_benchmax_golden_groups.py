"""Golden behaviours of run_group: order, isolation, group scoring, contract errors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import (
    Dataset,
    DatasetSplit,
    Environment,
    Example,
    RewardMap,
    RolloutAttempt,
    RolloutFailure,
    RolloutRequest,
    StaticBearerAuth,
)
from benchmax.envs.logging import current_group_ids, current_rollout_id

EXAMPLE = Example("e1", {"q": 1})


def request(
    rollout_id: str, *, example: Example[Any] = EXAMPLE, split: DatasetSplit = "train"
) -> RolloutRequest[Any]:
    return RolloutRequest(
        rollout_id, example, "m", f"http://127.0.0.1:9/{rollout_id}", StaticBearerAuth("k"), split
    )


def requests(*ids: str) -> list[RolloutRequest[Any]]:
    return [request(rollout_id) for rollout_id in ids]


class ScriptedEnv(Environment[Any, RolloutAttempt]):
    """Each rollout does what the script says for its id; so does the group scorer."""

    def __init__(self, script: Mapping[str, Any], group: Any = None) -> None:
        self.script = script
        self.group = group
        self.ran: list[str] = []
        self.scored: list[list[str]] = []
        self.settled: list[str] = []

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        return Dataset([EXAMPLE])

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        self.ran.append(request.rollout_id)
        step = self.script[request.rollout_id]
        if isinstance(step, Exception):
            raise step
        await asyncio.sleep(0)
        self.settled.append(request.rollout_id)
        if isinstance(step, Mapping):
            step = {"termination_reason": "finished", **step}
            return RolloutAttempt(rollout_id=request.rollout_id, **step)
        return step

    async def compute_group_rewards(
        self, rollouts: Sequence[RolloutAttempt]
    ) -> Mapping[str, RewardMap] | None:
        self.scored.append([rollout.rollout_id for rollout in rollouts])
        if isinstance(self.group, Exception):
            raise self.group
        return self.group(rollouts) if callable(self.group) else self.group


def group_value(value: float) -> Any:
    return lambda rollouts: {rollout.rollout_id: {"group": value} for rollout in rollouts}


async def test_three_rollouts_run_together_and_come_back_in_request_order() -> None:
    barrier = asyncio.Barrier(3)
    seen: dict[str, tuple[str, str | None]] = {}

    class BarrierEnv(ScriptedEnv):
        async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
            await barrier.wait()
            seen[request.rollout_id] = (request.base_url, current_rollout_id())
            return RolloutAttempt(
                rollout_id=request.rollout_id, termination_reason="finished", rewards={"x": 1.0}
            )

    outcomes = await BarrierEnv({}).run_group(requests("c", "a", "b"))
    assert list(outcomes) == ["c", "a", "b"]
    assert seen == {name: (f"http://127.0.0.1:9/{name}", name) for name in "abc"}
    assert current_rollout_id() is None


async def test_the_group_scorer_sees_every_scorable_attempt_once_with_the_group_ids() -> None:
    log_ids: list[tuple[str, ...]] = []

    def group(rollouts: Sequence[RolloutAttempt]) -> Mapping[str, RewardMap]:
        log_ids.append(current_group_ids())
        return group_value(0.5)(rollouts)

    budget = {"termination_reason": "max_turns_exceeded", "rewards": {"own": 1.0}}
    env = ScriptedEnv(
        {
            "a": {"rewards": {"own": 1.0}},
            "b": budget,
            "c": {**budget, "termination_reason": "tool_budget_exceeded"},
            "d": {**budget, "termination_reason": "output_exceeded"},
            "e": {"termination_reason": "model_error", "rewards": {}},
        },
        group,
    )
    outcomes = await env.run_group(requests("a", "b", "c", "d", "e"))
    assert env.scored == [["a", "b", "c", "d"]] and log_ids == [("a", "b", "c", "d")]
    assert current_group_ids() == ()
    for name, reason in [("a", "finished"), ("b", "max_turns_exceeded"), ("d", "output_exceeded")]:
        assert outcomes[name].rewards == {"own": 1.0, "group": 0.5}
        assert outcomes[name].termination_reason == reason
    assert outcomes["e"].rewards == {} and outcomes["e"].termination_reason == "model_error"


async def test_a_rollout_failure_costs_only_its_own_rollout() -> None:
    env = ScriptedEnv(
        {
            "a": {"rewards": {"x": 1.0}},
            "b": RolloutFailure("sandbox_error", "no box"),
            "c": {"rewards": {"x": 1.0}},
        }
    )
    outcomes = await env.run_group(requests("a", "b", "c"))
    assert outcomes["b"].rewards == {} and outcomes["b"].termination_reason == "sandbox_error"
    assert outcomes["b"].error == "no box"
    assert outcomes["a"].rewards == outcomes["c"].rewards == {"x": 1.0}


async def test_a_group_crash_takes_every_score_and_keeps_budget_reasons() -> None:
    env = ScriptedEnv(
        {
            "a": {"termination_reason": "context_exceeded", "rewards": {"x": 1.0}},
            "b": {"rewards": {"x": 1.0}},
        },
        RuntimeError("ranking broke"),
    )
    outcomes = await env.run_group(requests("a", "b"))
    assert [o.termination_reason for o in outcomes.values()] == ["context_exceeded", "group_reward_error"]
    assert all(o.rewards == {} and o.error == "RuntimeError: ranking broke" for o in outcomes.values())


async def test_a_group_rollout_failure_gives_its_own_reason() -> None:
    env = ScriptedEnv({"a": {"rewards": {"x": 1.0}}, "b": {}}, RolloutFailure("judge_error", "judge is down"))
    outcomes = await env.run_group(requests("a", "b"))
    assert all(
        (o.rewards, o.termination_reason, o.error) == ({}, "judge_error", "judge is down")
        for o in outcomes.values()
    )


async def test_a_broken_environment_raises_only_after_the_siblings_are_done() -> None:
    env = ScriptedEnv({"a": RuntimeError("bug"), "b": {"rewards": {"x": 1.0}}})
    with pytest.raises(RuntimeError, match="bug"):
        await env.run_group(requests("a", "b"))
    assert env.settled == ["b"]


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ([], "at least one"),
        (requests("a", "a"), "duplicate rollout IDs"),
        ([request("a"), request("b", example=Example("e2", {}))], "must use one example"),
        ([request("a"), request("b", split="eval")], "one split"),
    ],
)
async def test_what_is_no_group_is_rejected_before_anything_runs(
    group: list[RolloutRequest[Any]], message: str
) -> None:
    env = ScriptedEnv({"a": {}, "b": {}})
    with pytest.raises(ValueError, match=message):
        await env.run_group(group)
    assert env.ran == []


@pytest.mark.parametrize(
    "answer", [{"a": {"g": 1.0}}, {"a": {"g": 1.0}, "b": {"g": 1.0}, "z": {"g": 1.0}}, [1]]
)
async def test_a_misaligned_group_answer_scores_nobody(answer: Any) -> None:
    env = ScriptedEnv({"a": {"rewards": {"x": 1.0}}, "b": {"rewards": {"x": 1.0}}}, answer)
    outcomes = await env.run_group(requests("a", "b"))
    assert all((o.rewards, o.termination_reason) == ({}, "group_reward_error") for o in outcomes.values())
    assert all(o.error for o in outcomes.values())


async def test_a_result_that_is_no_attempt_raises() -> None:
    with pytest.raises(TypeError, match="expected RolloutAttempt"):
        await ScriptedEnv({"a": object()}).run_group(requests("a"))


async def test_a_wrong_rollout_id_raises() -> None:
    stranger = RolloutAttempt(rollout_id="other", termination_reason="finished", rewards={"x": 1.0})
    with pytest.raises(ValueError, match="wrong rollout ID"):
        await ScriptedEnv({"a": stranger}).run_group(requests("a"))


async def test_finished_needs_a_reward_and_a_budget_stop_does_not() -> None:
    env = ScriptedEnv({"a": {}, "b": {"termination_reason": "context_exceeded"}})
    outcomes = await env.run_group(requests("a", "b"))
    assert outcomes["a"].termination_reason == "group_reward_error"
    assert "has no rewards" in str(outcomes["a"].error)
    assert (outcomes["b"].rewards, outcomes["b"].termination_reason) == ({}, "context_exceeded")
    assert outcomes["b"].error is None


async def test_a_failed_rollout_with_a_reward_raises() -> None:
    env = ScriptedEnv({"a": {"termination_reason": "model_error", "rewards": {"x": 0.5}}})
    with pytest.raises(ValueError, match="has non-zero rewards"):
        await env.run_group(requests("a"))


async def test_a_failed_rollout_keeps_zero_rewards() -> None:
    env = ScriptedEnv({"a": {"termination_reason": "verifier_error", "rewards": {"x": 0.0}}})
    outcome = (await env.run_group(requests("a")))["a"]
    assert (outcome.rewards, outcome.termination_reason) == ({"x": 0.0}, "verifier_error")


async def test_reward_names_are_free() -> None:
    env = ScriptedEnv({"a": {"rewards": {"völlig / egal!": -3, "2": 1e9}}})
    assert (await env.run_group(requests("a")))["a"].rewards == {"völlig / egal!": -3, "2": 1e9}


async def test_cancelling_the_group_cancels_its_rollouts() -> None:
    cancelled: list[str] = []
    started = asyncio.Event()

    class WaitingEnv(ScriptedEnv):
        async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(request.rollout_id)
                raise
            raise AssertionError

    group = asyncio.create_task(WaitingEnv({}).run_group(requests("a", "b")))
    await started.wait()
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert {"benchmax-rollout-a", "benchmax-rollout-b"} <= names
    group.cancel()
    with pytest.raises(asyncio.CancelledError):
        await group
    assert sorted(cancelled) == ["a", "b"]
