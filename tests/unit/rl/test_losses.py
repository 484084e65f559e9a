"""Closed-form tests 2, 4, 6 and 7 of the training notes."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch

from castform.config import RlSection
from castform_trainer.losses import GrpoConfig, grpo_terms, make_loss
from castform_trainer.rl.weighting import Aggregation, make_weights, weighted_sum


def term_and_gradient(ratio, advantage, **limits):
    """Loss and d loss / d log pi of one token at the given ratio, on data from the old policy."""
    config = GrpoConfig(**{"clip_low": 0.2, "clip_high": 0.2, **limits})
    old = torch.zeros(1, dtype=torch.float64)
    new = torch.full((1,), math.log(ratio), dtype=torch.float64, requires_grad=True)
    terms = grpo_terms(new, old, old, torch.tensor([advantage], dtype=torch.float64), config)
    terms.terms_O.sum().backward()
    return float(terms.terms_O.detach()), float(new.grad), bool(terms.clipped_O)


@pytest.mark.parametrize(
    ("ratio", "advantage", "limits", "loss", "gradient"),
    [
        (1.5, 1.0, {}, -1.2, 0.0),
        (0.5, 1.0, {}, -0.5, -0.5),
        (1.5, -1.0, {}, 1.5, 1.5),
        (0.5, -1.0, {}, 0.8, 0.0),
        (1.25, 1.0, {"clip_high": 0.28}, -1.25, -1.25),
        (5.0, -1.0, {"dual_clip": 3.0}, 3.0, 0.0),
        (5.0, -1.0, {"ratio_ceiling": 4.0}, 4.0, 0.0),
    ],
)
def test_clipping_has_the_published_values_and_gradients(ratio, advantage, limits, loss, gradient):
    found, slope, clipped = term_and_gradient(ratio, advantage, **limits)
    assert found == pytest.approx(loss)
    assert slope == pytest.approx(gradient)
    if not {"dual_clip", "ratio_ceiling"} & set(limits):
        assert clipped == (gradient == 0.0)


@pytest.mark.parametrize("advantage", [0.75, -0.25, 0.0])
def test_on_policy_the_gradient_is_that_of_the_plain_policy_gradient(advantage):
    loss, slope, clipped = term_and_gradient(1.0, advantage)
    assert (loss, slope, clipped) == (-advantage, -advantage, False)


def test_the_importance_weight_is_truncated():
    new = torch.tensor([math.log(0.8), math.log(0.5)], requires_grad=True)
    sampler = torch.tensor([math.log(0.2), math.log(0.5)])
    terms = grpo_terms(new, new.detach(), sampler, torch.ones(2), GrpoConfig(importance_cap=2.0))
    assert terms.weight_O.tolist() == pytest.approx([2.0, 1.0])
    assert terms.terms_O.tolist() == pytest.approx([-2.0, -1.0])
    terms.terms_O.sum().backward()
    assert new.grad.tolist() == pytest.approx([-2.0, -1.0])


def test_no_gradient_flows_into_the_old_policy():
    logprobs = torch.tensor([-0.5], requires_grad=True)
    terms = grpo_terms(logprobs, logprobs, torch.tensor([-0.5]), torch.ones(1), GrpoConfig())
    terms.terms_O.sum().backward()
    assert logprobs.grad.tolist() == pytest.approx([-1.0])


def test_the_config_names_the_loss_and_binds_its_limits():
    loss = make_loss(RlSection(clip_high=0.5))
    new = torch.tensor([math.log(1.4)])
    assert float(loss(new, torch.zeros(1), torch.zeros(1), torch.ones(1)).terms_O) == pytest.approx(-1.4)


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("sequence_mean", 0.5), ("token_mean", 0.25), ("constant", 0.125), ("rollout_mean", 0.5)],
)
def test_aggregations_of_one_token_and_three(aggregation, expected):
    weights = make_weights("ABBB", "abbb", aggregation=aggregation, constant_length=4)
    assert weighted_sum([1.0, 0.0, 0.0, 0.0], weights) == pytest.approx(expected)


def test_a_rollout_of_many_segments_counts_once_under_rollout_mean():
    assert make_weights("ABC", "aab", aggregation="rollout_mean") == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_the_number_of_segments_of_a_rollout_does_not_scale_its_loss(aggregation):
    """One rollout of six tokens beside one of two, the first recorded whole, then as three branches."""

    def share(sequences):
        weights = make_weights(sequences, "aaaaaabb", aggregation=aggregation, constant_length=8)
        return sum(weights[:6]), sum(weights[6:])

    whole, branched = share("AAAAAABB"), share("AABBCCDD")
    assert branched == pytest.approx(whole, abs=1e-12)


def test_nothing_trained_is_zero_and_finite():
    assert weighted_sum([], make_weights([], [])) == 0.0
