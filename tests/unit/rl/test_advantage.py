"""Closed-form test 1 of the training notes, and the rule that a failure is never a number."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castform_trainer.rl.advantage import AdvantageConfig, compute_advantages, discounted_returns, has_signal

ONE_RIGHT = [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("config", "first", "rest"),
    [
        (AdvantageConfig(), 0.75, -0.25),
        (AdvantageConfig(scale="std", ddof=0, eps=0.0), 1.7320508, -0.5773503),
        (AdvantageConfig(scale="std", ddof=1, eps=1e-4), 1.4997000, -0.4999000),
        (AdvantageConfig(scale="rloo"), 1.0, -1 / 3),
        (AdvantageConfig(scale="mean"), 3.0, -1.0),
    ],
)
def test_one_right_of_four_gives_the_published_values(config, first, rest):
    assert compute_advantages(ONE_RIGHT, config) == pytest.approx([first, rest, rest, rest], abs=5e-7)


@pytest.mark.parametrize("scale", ["none", "std", "rloo", "mean"])
@pytest.mark.parametrize("score", [0.0, 1.0, 0.1, -3.3])
def test_equal_scores_give_exact_zeros(scale, score):
    assert compute_advantages([score] * 7, AdvantageConfig(scale=scale)) == [0.0] * 7


@given(st.lists(st.one_of(st.none(), st.floats(-5, 5)), min_size=1, max_size=16))
def test_members_without_a_score_change_no_bit_of_the_others(scores):
    survivors = [score for score in scores if score is not None]
    for scale in ("none", "std", "rloo", "mean"):
        config = AdvantageConfig(scale=scale)
        whole = compute_advantages(scores, config)
        assert [value is None for value in whole] == [score is None for score in scores]
        assert [value for value in whole if value is not None] == compute_advantages(survivors, config)


def test_with_91_percent_failures_survivors_are_scored_as_if_alone():
    draw = random.Random(7)
    scores = [draw.random() if index < 23 else None for index in range(256)]
    draw.shuffle(scores)
    survivors = [score for score in scores if score is not None]
    assert 1 - len(survivors) / len(scores) > 0.91
    kept = [value for value in compute_advantages(scores) if value is not None]
    assert kept == compute_advantages(survivors)
    assert kept == [score - math.fsum(survivors) / 23 for score in survivors]


def test_too_few_scored_members_are_no_signal():
    assert not has_signal([1.0, None, None])
    assert not has_signal([1.0, 0.0, None], min_valid=3)
    assert not has_signal([None, None])
    assert has_signal([1.0, 0.0, None])
    assert compute_advantages([1.0, None, 0.0], AdvantageConfig(min_valid=3)) == [0.0, None, 0.0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="not finite"):
        compute_advantages([bad, 0.0])


def test_returns_pass_over_tool_output_undiscounted():
    returns = discounted_returns([0, 0, 0, 0, 1.0], [1, 1, 0, 0, 1], gamma=0.9)
    assert returns == pytest.approx([0.81, 0.9, 0.0, 0.0, 1.0])
