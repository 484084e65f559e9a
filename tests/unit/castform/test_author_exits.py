"""sys.exit in an author's code costs a rollout or is an error; it never ends the program without a word."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from environments import Bare, Sums, make_example

from castform.calls import Sampling
from castform.environments import load_examples
from castform.errors import CastformError
from castform.rollouts import run_group
from castform.scripted_endpoint import ScriptedEndpoint
from castform.validate import ValidateOptions, validate


def leave(*_: object) -> None:
    sys.exit(5)


class ExitsInRunGroup(Sums):
    async def run_group(self, requests):
        sys.exit(5)


class ExitsInData(Sums):
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        sys.exit(5)


class ExitsInGold(Sums):
    def gold(self, example):
        sys.exit(5)


async def settle(environment):
    endpoint = ScriptedEndpoint(lambda request: "14")
    try:
        return await run_group(
            environment,
            make_example(7),
            endpoint=endpoint,
            split="eval",
            group_id="g",
            size=2,
            sampling=Sampling(),
            seed=0,
            weights={},
            timeout_seconds=20,
        )
    finally:
        await endpoint.aclose()


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (Sums(leave), "reward_error"),
        (Bare(leave), "environment_error"),
        (ExitsInRunGroup(), "environment_error"),
    ],
)
async def test_a_rollout_whose_code_exits_is_a_failed_rollout(environment, reason) -> None:
    group = await settle(environment)
    assert [rollout.termination_reason for rollout in group.rollouts] == [reason, reason]
    assert all(rollout.score is None and "5" in rollout.error for rollout in group.rollouts)


async def test_data_that_exits_is_an_error_with_its_cause() -> None:
    with pytest.raises(CastformError, match="SystemExit: 5"):
        await load_examples(ExitsInData(), "train", Path())


async def test_gold_that_exits_is_a_fault_of_the_environment() -> None:
    report = await validate(ExitsInGold(), [make_example(3)])
    assert [fault.code for fault in report.faults] == ["gold_raises"]


async def test_a_reward_that_returns_nothing_is_a_fault_without_a_model_too() -> None:
    report = await validate(
        Sums(lambda text, answer: None), [make_example(3)], options=ValidateOptions(timeout_seconds=20)
    )
    assert report.trainable is False
    assert "has no rewards" in report.faults[-1].message
