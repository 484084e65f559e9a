"""Wilson's interval for a share."""

from __future__ import annotations

import pytest

from castform.intervals import wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 24, 0.0, 0.1380), (24, 24, 0.8620, 1.0), (12, 24, 0.3143, 0.6857), (1, 10, 0.0179, 0.4042)],
)
def test_intervals_are_those_of_the_tables(successes, trials, low, high):
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_nothing_tried_says_nothing():
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 3), (4, 3)])
def test_more_successes_than_trials_are_refused(successes, trials):
    with pytest.raises(ValueError, match="no share"):
        wilson_interval(successes, trials)
