from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from benchmax.envs import RolloutFailure
from castform.plugins import load_environment
from castform.testing import FakeModel, Fault, ScriptedRequest, assert_conforms

from PACKAGE_NAME.agent import calculate
from PACKAGE_NAME.program import run_program


def test_it_keeps_the_rules_that_all_environments_keep() -> None:
    assert_conforms("PLUGIN_NAME", examples=2, scripts=4)  # each reply is a process


async def test_the_agent_calculates_and_its_answer_is_paid() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    truth = example.payload["ground_truth"]

    def solver(request: ScriptedRequest) -> str:
        """Let the agent calculate, then answer with what it said."""
        said = str(request.messages[-1]["content"])
        return (
            f"CALC: {truth} * 1" if request.index == 0 else f"<answer>{said}</answer>"
        )

    async with FakeModel(solver) as model:
        group = await model.run_group(environment, example, split="eval")
    await environment.aclose()
    assert group.rollouts[0].rewards == {"correct": 1.0}
    assert len(group.rollouts[0].calls) == 2


async def test_an_agent_that_gives_up_earns_nothing() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    async with FakeModel(lambda request: "CALC: 1 + 1") as model:
        group = await model.run_group(environment, example, split="eval")
    await environment.aclose()
    assert group.rollouts[0].termination_reason == "max_turns_exceeded"
    assert group.rollouts[0].rewards == {"correct": 0.0}


async def test_a_model_that_cannot_be_asked_is_no_score() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    async with FakeModel(lambda request: Fault(status=400, message="no")) as model:
        group = await model.run_group(environment, example, split="eval")
    await environment.aclose()
    assert group.rollouts[0].termination_reason == "model_error"
    assert group.rollouts[0].score is None


async def test_a_program_that_hangs_is_killed_with_all_that_it_started() -> None:
    hang = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    began = time.monotonic()
    with pytest.raises(RolloutFailure, match="took longer"):
        await run_program(
            [sys.executable, "-c", hang], text="", env={}, timeout_seconds=0.5
        )
    assert time.monotonic() - began < 10


async def test_a_cancelled_rollout_ends_its_program() -> None:
    run = asyncio.create_task(
        run_program(
            [sys.executable, "-c", "input()"], text="", env={}, timeout_seconds=60
        )
    )
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


def test_the_agent_calculates_with_two_numbers_and_nothing_else() -> None:
    assert calculate("CALC: 36 * 48") == 1728
    assert calculate("CALC: 7 - 9") == -2
    assert calculate("CALC: __import__('os')") is None
    assert calculate("It is 4.") is None
