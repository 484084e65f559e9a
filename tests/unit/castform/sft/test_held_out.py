"""Whether a held-out loss fell, paired by row."""

from __future__ import annotations

import json
import random

import pytest

from castform.sft.held_out import HeldOutLoss, RowLoss, compare_losses


def make_loss(nll, weights=None):
    weights = weights or [1.0] * len(nll)
    return HeldOutLoss(rows=tuple(RowLoss(nll=n, weight=w) for n, w in zip(nll, weights)), seconds=1.0)


def test_the_loss_is_the_mean_over_tokens_and_not_over_rows():
    assert make_loss([10.0, 2.0], [9.0, 1.0]).loss == pytest.approx(1.2)


def test_a_loss_survives_being_stored():
    loss = make_loss([1.5, 2.25], [3.0, 4.0])
    assert HeldOutLoss.from_dict(json.loads(json.dumps(loss.as_dict()))) == loss
    assert "rows" not in loss.as_dict(with_rows=False)


@pytest.mark.parametrize(("change", "word"), [(-1.0, "better"), (1.0, "worse"), (0.0, "no difference shown")])
def test_a_change_in_every_row_is_told_and_none_is_not(change, word):
    draw = random.Random(0)
    weights = [float(draw.randrange(1, 9)) for _ in range(30)]
    before = [draw.uniform(2, 3) * w for w in weights]
    after = [b + change * w * draw.uniform(0.5, 1.5) for b, w in zip(before, weights)]
    verdict = compare_losses(make_loss(before, weights), make_loss(after, weights), resamples=500)
    assert verdict.word == word
    found = verdict.score
    assert found.difference == pytest.approx((sum(after) - sum(before)) / sum(weights), abs=1e-12)
    assert found.low <= found.difference <= found.high
    assert found.after == pytest.approx(found.before + found.difference)
    assert verdict.as_dict()["sentence"].startswith(f"{word}: loss ")


def test_noise_without_an_effect_is_seldom_called_a_change():
    draw = random.Random(4)
    claims = 0
    for number in range(100):
        weights = [float(draw.randrange(1, 30)) for _ in range(12)]
        before = [draw.gauss(2, 0.5) * w for w in weights]
        after = [b + draw.gauss(0, 0.3) * w for b, w in zip(before, weights)]
        verdict = compare_losses(
            make_loss(before, weights), make_loss(after, weights), seed=number, resamples=300
        )
        claims += verdict.word != "no difference shown"
    assert claims <= 8  # 5 % is promised


def test_one_long_row_alone_shows_nothing():
    before, after = [30.0] + [2.0] * 9, [3.0] + [2.0] * 9
    weights = [20.0] + [1.0] * 9
    verdict = compare_losses(make_loss(before, weights), make_loss(after, weights), resamples=500)
    assert verdict.score.difference < -0.9
    assert verdict.word == "no difference shown"


def test_other_rows_cannot_be_compared():
    with pytest.raises(ValueError, match="different rows"):
        compare_losses(make_loss([1.0], [1.0]), make_loss([1.0], [2.0]))
