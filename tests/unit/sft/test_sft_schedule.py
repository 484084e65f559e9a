"""Every row once an epoch, in steps of one size, and the rate of each."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.sft.config import SftConfig
from castform_trainer.sft.schedule import learning_rate, make_schedule


def make_config(**sections):
    return SftConfig.model_validate(sections)


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 70), size=st.integers(1, 20), seed=st.integers(0, 5))
def test_an_epoch_has_each_row_once_in_steps_that_differ_by_one_row_at_most(rows, size, seed):
    schedule = make_schedule(make_config(batch={"rows": size}, run={"epochs": 2, "seed": seed}), rows)
    assert schedule.steps == 2 * math.ceil(rows / size)
    for epoch in range(2):
        first = epoch * schedule.steps_per_epoch
        dealt = [schedule.rows_of(step) for step in range(first, first + schedule.steps_per_epoch)]
        assert sorted(row for step in dealt for row in step) == list(range(rows))
        sizes = [len(step) for step in dealt]
        assert max(sizes) - min(sizes) <= 1 and max(sizes) <= size


def test_epochs_and_seeds_shuffle_otherwise_and_the_same_seed_the_same():
    def order(seed, epoch):
        schedule = make_schedule(make_config(batch={"rows": 50}, run={"seed": seed}), 50)
        return schedule.rows_of(epoch)

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_steps_win_over_epochs():
    assert make_schedule(make_config(run={"epochs": 9, "steps": 4}), 100).steps == 4


def test_a_cosine_falls_from_the_end_of_the_warm_up_to_the_lowest_rate():
    config = make_config(
        optimizer={"learning_rate": 0.1, "min_learning_rate": 0.02, "warmup_ratio": 0.2, "decay": "cosine"}
    )
    rates = [learning_rate(config, update, total=10) for update in range(11)]
    assert rates[:3] == pytest.approx([0.1 / 3, 0.2 / 3, 0.1])
    assert rates[6] == pytest.approx(0.06)  # halfway from 2 to 10
    assert rates[9] == pytest.approx(0.02 + 0.08 * (1 + math.cos(math.pi * 7 / 8)) / 2)
    assert rates[10] == pytest.approx(0.02)


def test_a_constant_rate_stays_and_no_warm_up_starts_with_it():
    config = make_config(optimizer={"learning_rate": 0.1, "warmup_ratio": 0, "decay": "constant"})
    assert [learning_rate(config, update, total=5) for update in range(5)] == [0.1] * 5


def test_a_cosine_of_one_update_has_the_full_rate():
    config = make_config(optimizer={"learning_rate": 0.1, "warmup_ratio": 0.05})
    assert learning_rate(config, 0, total=1) == 0.1
