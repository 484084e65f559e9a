"""A hook defect is an outcome of the rollouts that it touches, and nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import (
    BaseRollout,
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
from benchmax.envs.observe import observe_rollouts
from benchmax.envs.termination import settle_termination_reason

NOT_REWARDS = [
    {"x": float("nan")},
    {"x": "1.0"},
    {"x": Fraction(1)},
    {"x": True},
    {"": 1.0},
    {1: 1.0},
    [1.0],
    0.5,
    "good",
]


class AttemptEnv(Environment[Any, RolloutAttempt]):
    """Hands out prepared attempts and one prepared group answer."""

    def __init__(self, attempts: Mapping[str, Mapping[str, Any]], group: Any = None) -> None:
        self.attempts, self.group = attempts, group
        self.scored: list[str] = []

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        return Dataset([])

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        fields = {"termination_reason": "finished", **self.attempts[request.rollout_id]}
        return RolloutAttempt(rollout_id=request.rollout_id, **fields)

    async def compute_group_rewards(
        self, rollouts: Sequence[RolloutAttempt]
    ) -> Mapping[str, RewardMap] | None:
        self.scored = [rollout.rollout_id for rollout in rollouts]
        return self.group


def requests(count: int) -> list[RolloutRequest[Any]]:
    example = Example("e", {})
    return [
        RolloutRequest(f"r{i}", example, "m", "http://127.0.0.1:9", StaticBearerAuth("k"))
        for i in range(count)
    ]


@pytest.mark.parametrize("bad", NOT_REWARDS, ids=repr)
async def test_bad_group_rewards_cost_only_their_own_rollout(bad: Any) -> None:
    env = AttemptEnv({"r0": {}, "r1": {}}, {"r0": {"g": 1.0}, "r1": bad})
    outcomes = await env.run_group(requests(2))
    assert outcomes["r0"].rewards == {"g": 1.0} and outcomes["r0"].error is None
    assert (outcomes["r1"].rewards, outcomes["r1"].termination_reason) == ({}, "group_reward_error")
    assert outcomes["r1"].error


async def test_a_numpy_scalar_is_a_typed_outcome_and_a_float64_a_float() -> None:
    import numpy

    env = AttemptEnv({"r0": {}, "r1": {}}, {"r0": {"g": numpy.float64(0.5)}, "r1": {"g": numpy.float32(0.5)}})
    outcomes = await env.run_group(requests(2))
    assert outcomes["r0"].rewards == {"g": 0.5} and type(outcomes["r0"].rewards["g"]) is float
    assert outcomes["r1"].termination_reason == "group_reward_error"


async def test_bad_group_rewards_keep_a_budget_reason() -> None:
    env = AttemptEnv({"r0": {"termination_reason": "output_exceeded"}}, {"r0": {"g": float("inf")}})
    outcome = (await env.run_group(requests(1)))["r0"]
    assert (outcome.rewards, outcome.termination_reason) == ({}, "output_exceeded")
    assert "must be finite" in str(outcome.error)


async def test_one_finished_rollout_without_rewards_leaves_its_siblings_alone() -> None:
    env = AttemptEnv({"r0": {"rewards": {"x": 1.0}}, "r1": {}, "r2": {"rewards": {}}})
    outcomes = await env.run_group(requests(3))
    assert outcomes["r0"].rewards == {"x": 1.0} and outcomes["r0"].termination_reason == "finished"
    assert [outcomes[name].termination_reason for name in ("r1", "r2")] == ["group_reward_error"] * 2


async def test_a_repeated_component_costs_only_its_own_rollout() -> None:
    env = AttemptEnv(
        {"r0": {"rewards": {"own": 1.0}}, "r1": {"rewards": {"shared": 1.0}}},
        {"r0": {"shared": 1.0}, "r1": {"shared": 1.0}},
    )
    outcomes = await env.run_group(requests(2))
    assert outcomes["r0"].rewards == {"own": 1.0, "shared": 1.0}
    assert outcomes["r1"].termination_reason == "group_reward_error"


async def test_an_attempt_whose_own_scoring_failed_earns_nothing_from_the_group() -> None:
    failed = {"termination_reason": "max_turns_exceeded", "rewards": {}, "error": "KeyError: 'x'"}
    env = AttemptEnv({"r0": failed, "r1": {"rewards": {"x": 1.0}}}, {"r1": {"g": 1.0}})
    outcomes = await env.run_group(requests(2))
    assert env.scored == ["r1"] and outcomes["r1"].rewards == {"x": 1.0, "g": 1.0}
    assert (outcomes["r0"].rewards, outcomes["r0"].termination_reason) == ({}, "max_turns_exceeded")
    assert outcomes["r0"].error == "KeyError: 'x'"


async def test_an_attempt_that_waits_for_the_group_may_carry_a_remark() -> None:
    env = AttemptEnv({"r0": {"error": "one tool was slow"}}, {"r0": {"g": 1.0}})
    outcome = (await env.run_group(requests(1)))["r0"]
    assert (outcome.rewards, outcome.error) == ({"g": 1.0}, "one tool was slow")


async def test_the_group_hook_is_not_asked_about_nobody() -> None:
    env = AttemptEnv({"r0": {"termination_reason": "sandbox_error"}}, {"no": "such id"})
    outcome = (await env.run_group(requests(1)))["r0"]
    assert (outcome.rewards, outcome.termination_reason, outcome.error) == ({}, "sandbox_error", None)


@pytest.mark.parametrize(
    ("reason", "settled"), [("finished", "judge_error"), ("context_exceeded", "context_exceeded")]
)
def test_a_failure_replaces_only_finished(reason: str, settled: str) -> None:
    assert settle_termination_reason(reason, "judge_error") == settled


async def test_rollouts_at_a_time_are_capped_over_all_groups() -> None:
    running = most = 0

    class CappedEnv(AttemptEnv):
        max_concurrent_rollouts = 3

        async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
            nonlocal running, most
            running += 1
            most = max(most, running)
            for _ in range(5):
                await asyncio.sleep(0)
            running -= 1
            return RolloutAttempt(
                rollout_id=request.rollout_id, termination_reason="finished", rewards={"x": 1}
            )

    env = CappedEnv({})
    await asyncio.gather(env.run_group(requests(4)), env.run_group(requests(4)))
    assert most == 3


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
async def test_a_cap_that_lets_nobody_through_is_refused(limit: Any) -> None:
    env = AttemptEnv({"r0": {"rewards": {"x": 1.0}}})
    env.max_concurrent_rollouts = limit
    with pytest.raises(ValueError, match="max_concurrent_rollouts"):
        await env.run_group(requests(1))


def test_the_cap_works_on_a_second_event_loop() -> None:
    class CappedEnv(AttemptEnv):
        max_concurrent_rollouts = 1

    env = CappedEnv({"r0": {"rewards": {"x": 1.0}}, "r1": {"rewards": {"x": 1.0}}})
    for _ in range(2):
        outcomes = asyncio.run(env.run_group(requests(2)))
        assert len(outcomes) == 2


async def test_an_observer_sees_every_attempt_failures_too() -> None:
    class Observer:
        def __init__(self) -> None:
            self.attempts: list[RolloutAttempt] = []

        def on_call(self, *call: Any) -> None:
            raise AssertionError("no model call is made here")

        def on_attempt(self, attempt: RolloutAttempt) -> None:
            self.attempts.append(attempt)

    class HalfFailing(AttemptEnv):
        async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
            if request.rollout_id == "r1":
                raise RolloutFailure("sandbox_error", "no box")
            return BaseRollout(
                rollout_id="r0", termination_reason="finished", rewards={"x": 1.0}, messages=[{"a": 1}]
            )

    observer = Observer()
    with observe_rollouts(observer):
        await HalfFailing({}).run_group(requests(2))
    await HalfFailing({}).run_group(requests(2))
    by_id = {attempt.rollout_id: attempt for attempt in observer.attempts}
    assert len(observer.attempts) == 2 and isinstance(by_id["r0"], BaseRollout)
    assert by_id["r1"] == RolloutAttempt(
        rollout_id="r1", termination_reason="sandbox_error", rewards={}, error="no box"
    )


def test_an_attempt_is_a_snapshot_of_its_rewards() -> None:
    rewards = {"x": 1.0}
    attempt = RolloutAttempt(rollout_id="r", termination_reason="finished", rewards=rewards)
    rewards["x"] = float("nan")
    assert attempt.rewards == {"x": 1.0} and replace(attempt, error="e").rewards == {"x": 1.0}


@pytest.mark.parametrize(
    ("payload", "gold"),
    [
        ({"answer": "a"}, "a"),
        ({"ground_truth": 4, "answer": "a"}, 4),
        ({"ground_truth": None}, None),
        ({}, None),
        ("text", None),
    ],
)
def test_gold_is_the_ground_truth_or_the_answer(payload: Any, gold: object) -> None:
    assert AttemptEnv({}).gold(Example("e", payload)) == gold
