"""A reward that blocks or computes holds up no other rollout where the environment says score_in_thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from benchmax.envs import BaseEnv, Dataset, Example, RolloutFailure
from benchmax.envs.base.scoring import SCORING_THREADS
from benchmax.envs.logging import current_rollout_id
from castform.testing import FakeModel


def example(name):
    return Example(name, {"prompt_messages": [{"role": "user", "content": name}]})


class Scored(BaseEnv):
    """Scores by a function of the example's name."""

    max_turns = 1
    score_in_thread = True

    def __init__(self, score):
        super().__init__()
        self.score = score

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([])

    async def compute_reward(self, rollout):
        name = rollout.messages[0]["content"]
        value = self.score(name)
        return {"r": await value if asyncio.iscoroutine(value) else value}


async def test_others_are_scored_while_one_reward_blocks_and_another_computes():
    free, entered = threading.Event(), threading.Event()

    def score(name):
        if name == "blocks":
            entered.set()
            assert free.wait(60)
        while name == "computes" and not free.is_set():
            sum(range(1000))
        return 1.0

    environment = Scored(score)
    async with FakeModel(lambda request: "hello") as model:
        slow = [asyncio.create_task(model.run_group(environment, example(n))) for n in ("blocks", "computes")]
        await asyncio.to_thread(entered.wait, 60)
        quick = await asyncio.gather(*(model.run_group(environment, example(f"q{n}")) for n in range(4)))
        assert not any(task.done() for task in slow)
        assert [rollout.score for group in quick for rollout in group.rollouts] == [1.0] * 4
        free.set()
        assert [rollout.score for task in slow for rollout in (await task).rollouts] == [1.0, 1.0]


def fail():
    raise RolloutFailure("sandbox_error", "no box")


def stop():
    raise StopIteration("odd")


def leave():
    raise SystemExit(3)


@pytest.mark.parametrize(
    "score", [lambda: 0.25, lambda: float("nan"), lambda: "text", fail, leave, lambda: {}[1]]
)
async def test_a_reward_means_the_same_in_a_thread(score):
    async with FakeModel(lambda request: "hello") as model:
        told = []
        for in_thread in (False, True):
            environment = Scored(lambda name: score())
            environment.score_in_thread = in_thread
            (rollout,) = (await model.run_group(environment, example("x"))).rollouts
            told.append((rollout.termination_reason, rollout.error, rollout.rewards, rollout.score))
    assert told[0] == told[1]


async def test_a_reward_that_outlasts_its_rollout_is_left_behind(skip_seconds):
    loop, free = asyncio.get_running_loop(), threading.Event()

    def outlast(name):
        loop.call_soon_threadsafe(skip_seconds, 61)
        return float(free.wait(60))

    environment = Scored(outlast)
    environment.rollout_timeout_seconds = 60.0
    async with FakeModel(lambda request: "hello") as model:
        group = await model.run_group(environment, example("x"), timeout_seconds=600)
    free.set()
    (rollout,) = group.rollouts
    assert (rollout.termination_reason, rollout.score) == ("reward_error", None)
    assert rollout.error == "the rollout took longer than 60.0 seconds"


async def test_a_thread_has_an_event_loop_of_its_own_and_the_rollout_s_context():
    seen = {}

    async def score():
        await asyncio.sleep(0)
        seen["loop"], seen["rollout"] = asyncio.get_running_loop(), current_rollout_id()
        seen["thread"] = threading.current_thread()
        return 1.0

    async with FakeModel(lambda request: "hello") as model:
        (rollout,) = (await model.run_group(Scored(lambda name: score()), example("x"))).rollouts
    assert rollout.score == 1.0
    assert seen["rollout"] == rollout.rollout_id
    assert seen["loop"] is not asyncio.get_running_loop() and seen["loop"].is_closed()
    assert seen["thread"] is not threading.main_thread()


async def test_eight_rewards_run_at_a_time_and_no_ninth():
    full = threading.Event()
    lock = threading.Lock()
    active, most = 0, 0

    def score(name):
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
            if active == SCORING_THREADS:
                full.set()
        assert full.wait(60)
        with lock:
            active -= 1
        return 1.0

    environment = Scored(score)
    async with FakeModel(lambda request: "hello") as model:
        groups = await asyncio.gather(*(model.run_group(environment, example(f"n{n}")) for n in range(12)))
    assert [r.score for group in groups for r in group.rollouts] == [1.0] * 12
    assert most == SCORING_THREADS == 8
