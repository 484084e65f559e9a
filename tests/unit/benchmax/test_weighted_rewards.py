"""Weighted rewards: the sum, and every way in which a function can have none."""

from __future__ import annotations

import asyncio
import math
import sys
from typing import Any

import numpy
import pytest

from benchmax.rewards.judge import JudgeError
from benchmax.rewards.weighted import WeightedRewards


def half(completion: Any) -> float:
    return 0.5


def length(completion: Any) -> int:
    return len(completion)


async def later(completion: Any) -> float:
    await asyncio.sleep(0)
    return 2.0


def test_the_reward_is_the_weighted_sum_and_every_function_a_metric():
    rewards = WeightedRewards([(2.0, half), (-0.25, length), (0, length)])
    assert rewards.weights == {"half": 2.0, "length": -0.25, "length_2": 0.0}
    assert rewards.score("abcd") == {
        "reward": 0.0,
        "metrics": {"half": 0.5, "length": 4, "length_2": 4},
        "errors": {},
    }
    assert rewards.score("ab")["reward"] == 0.5


def test_equal_names_are_numbered_and_objects_go_by_their_class():
    class Scorer:
        def __call__(self, completion: Any) -> float:
            return 1.0

    rewards = WeightedRewards([(1, lambda c: 1.0), (1, lambda c: 2.0), (1, lambda c: 3.0), (1, Scorer())])
    assert list(rewards.weights) == ["<lambda>", "<lambda>_2", "<lambda>_3", "Scorer"]
    assert rewards.score("")["reward"] == 7.0


def raises(completion: Any) -> float:
    raise AttributeError("list has no strip")


def refuses(completion: Any) -> float:
    raise JudgeError("the judge is down")


def leaves(completion: Any) -> float:
    sys.exit(3)


DEFECTS = [
    (raises, "AttributeError: list has no strip", None),
    (refuses, "JudgeError: the judge is down", None),
    (leaves, "SystemExit: 3", None),
    (lambda c: None, "reward '<lambda>' must be numeric, not NoneType", None),
    (lambda c: "1.0", "reward '<lambda>' must be numeric, not str", None),
    (lambda c: True, "reward '<lambda>' must be numeric, not bool", None),
    (lambda c: numpy.float32(1), "reward '<lambda>' must be numeric, not float32", None),
    (lambda c: [1.0], "reward '<lambda>' must be numeric, not list", None),
    (lambda c: ValueError("returned"), "ValueError: returned", None),
    (lambda c: math.inf, "reward '<lambda>' must be finite, not inf", math.inf),
    (lambda c: 10**400, "reward '<lambda>' must be finite", None),
]


@pytest.mark.parametrize(("function", "error", "metric"), DEFECTS)
@pytest.mark.parametrize("weight", [1.0, -1.0, 0.0])
async def test_a_defect_leaves_no_score_and_its_cause_unless_it_weighs_nothing(
    function, error, metric, weight
):
    rewards = WeightedRewards([(1.0, half), (weight, function), (1.0, half)])
    name = list(rewards.weights)[1]
    for score in (rewards.score("x"), await rewards.ascore("x")):
        assert score["reward"] == (None if weight else 1.0)
        assert list(score["errors"]) == [name] and score["errors"][name].startswith(error)
        assert score["metrics"] == {"half": 0.5, name: metric, "half_2": 0.5}


@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_nan_is_reported_as_it_is(weight):
    score = WeightedRewards([(1.0, half), (weight, lambda c: math.nan)]).score("x")
    assert math.isnan(score["metrics"]["<lambda>"])
    assert score["errors"] == {"<lambda>": "reward '<lambda>' must be finite, not nan"}
    assert score["reward"] == (None if weight else 0.5)


def test_a_sum_beyond_a_float_is_no_score():
    score = WeightedRewards([(1e300, lambda c: 1e300)]).score("x")
    assert score["reward"] is None and score["errors"] == {"weighted sum": "the weighted sum is inf"}


@pytest.mark.filterwarnings("error")
def test_an_async_function_is_not_a_number_where_nobody_awaits_it():
    score = WeightedRewards([(1.0, later)]).score("x")
    assert score["reward"] is None and score["metrics"] == {"later": None}
    assert score["errors"] == {"later": "TypeError: the function is async; use `await ascore(...)`"}


async def test_a_future_is_not_a_number_either():
    future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    assert WeightedRewards([(1.0, lambda c: future)]).score("x")["reward"] is None  # type: ignore[list-item, return-value]


async def test_async_functions_are_awaited_at_the_same_time():
    both = asyncio.Barrier(2)

    async def first(completion: Any) -> float:
        await both.wait()
        return 1.0

    async def second(completion: Any) -> float:
        await both.wait()
        return 2.0

    async def fails(completion: Any) -> float:
        raise JudgeError("down")

    assert (await WeightedRewards([(1.0, first), (10.0, second), (0.5, half)]).ascore("x"))["reward"] == 21.25
    score = await WeightedRewards([(1.0, later), (1.0, fails)]).ascore("x")
    assert score["reward"] is None and score["metrics"] == {"later": 2.0, "fails": None}
    assert score["errors"] == {"fails": "JudgeError: down"}


async def test_a_cancelled_score_stays_cancelled():
    async def hangs(completion: Any) -> float:
        await asyncio.Event().wait()
        return 1.0

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await WeightedRewards([(1.0, hangs)]).ascore("x")


@pytest.mark.parametrize(
    ("terms", "kind", "words"),
    [
        ([(math.nan, half)], ValueError, "the weight of 'half' must be finite, not nan"),
        ([(math.inf, half)], ValueError, "the weight of 'half' must be finite, not inf"),
        ([("1", half)], TypeError, "the weight of 'half' must be a number, not str"),
        ([(True, half)], TypeError, "the weight of 'half' must be a number, not bool"),
        ([(None, half)], TypeError, "the weight of 'half' must be a number, not NoneType"),
        ([(1.0, "half")], TypeError, "'half' cannot be called"),
        ([], ValueError, "at least one term with a weight other than 0"),
        ([(0.0, half)], ValueError, "at least one term with a weight other than 0"),
    ],
)
def test_terms_are_checked_when_they_are_put_together(terms, kind, words):
    with pytest.raises(kind, match=words):
        WeightedRewards(terms)
