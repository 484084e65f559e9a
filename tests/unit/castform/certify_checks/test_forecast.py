"""The forecast of group signal: closed forms, coverage of its intervals, and what it suggests."""

from __future__ import annotations

import functools
import itertools
import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castform.certify.forecast import (
    classify,
    effective_share,
    forecast_results,
    forecast_signal,
    make_share,
)
from castform.certify.forecast_findings import judge_forecast
from castform.eval_result import ExampleResult, RolloutResult
from castform.lengths import RolloutLengths
from castform.rollouts import Rollout, RolloutGroup

EXAMPLES = 64
SAMPLES = 8
SEEDS = 150


def closed_form(p, k):
    return 1 - p**k - (1 - p) ** k


def result(name, scores, lengths=None):
    lengths = lengths or [None] * len(scores)
    return ExampleResult(
        example_id=name,
        rollouts=tuple(
            RolloutResult(
                rollout_id=f"{name}-{i}",
                score=score,
                rewards={} if score is None else {"correct": score},
                termination_reason="reward_error" if score is None else "finished",
                error=None,
                finish_reasons=("stop",),
                lengths=RolloutLengths(
                    turns=1, prompt_tokens=1, completion_tokens=length, context_tokens=length
                ),
                seconds=0.0,
            )
            for i, (score, length) in enumerate(zip(scores, lengths, strict=True))
        ),
    )


def sample_policy(p, seed, *, examples=EXAMPLES, samples=SAMPLES):
    rng = random.Random(seed)
    return [result(f"e{i}", [float(rng.random() < p) for _ in range(samples)]) for i in range(examples)]


@functools.cache
def forecast_policy(p):
    """Forecasts of SEEDS draws of one policy; both coverage tests look at the same ones."""
    return [forecast_results(sample_policy(p, seed)) for seed in range(SEEDS)]


@pytest.mark.parametrize("p", [0.0, 0.02, 0.5, 1.0])
def test_synthetic_policies_give_the_closed_form_within_the_interval(p):
    covered = 0
    means = []
    for forecast in forecast_policy(p):
        effective = forecast.at_samples.effective
        assert forecast.at_samples.group_size == SAMPLES
        covered += effective.low <= closed_form(p, SAMPLES) <= effective.high
        means.append(effective.value)
    # A 95 % interval misses in 5 % of the seeds; fewer than this many hits has probability 1e-4.
    assert covered >= least_hits(SEEDS, 0.95, 1e-4)
    expected = closed_form(p, SAMPLES)
    spread = math.sqrt(expected * (1 - expected) / EXAMPLES / SEEDS)
    assert statistics.fmean(means) == pytest.approx(expected, abs=4 * spread + 1e-12)


def least_hits(trials, chance, error):
    """Return the `error` quantile of a binomial count."""
    total = 0.0
    for hits in range(trials + 1):
        total += math.comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits)
        if total > error:
            return hits
    raise AssertionError("a distribution sums to one")


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("size", [2, 4, 6])
def test_smaller_groups_are_read_off_the_same_samples(p, size):
    covered = 0
    means = []
    for forecast in forecast_policy(p):
        effective = next(s for s in forecast.sizes if s.group_size == size).effective
        covered += effective.low <= closed_form(p, size) <= effective.high
        means.append(effective.value)
    # The variance is estimated here, so the interval is allowed to hold in 90 %.
    assert covered >= least_hits(SEEDS, 0.90, 1e-4)
    # A value of one example varies at most as much as the indicator of one group does.
    spread = math.sqrt(closed_form(p, size) * (1 - closed_form(p, size)) / EXAMPLES / SEEDS)
    assert statistics.fmean(means) == pytest.approx(closed_form(p, size), abs=4 * spread)


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=8),
    st.integers(min_value=2, max_value=8),
)
def test_the_share_is_that_of_all_subsets(scores, size):
    if size > len(scores):
        with pytest.raises(ValueError, match="cannot be drawn"):
            effective_share(scores, size)
        return
    subsets = list(itertools.combinations(scores, size))
    assert effective_share(scores, size) == pytest.approx(
        sum(len(set(subset)) > 1 for subset in subsets) / len(subsets)
    )


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=2, max_size=12))
def test_a_larger_group_never_has_less_signal(scores):
    shares = [effective_share(scores, size) for size in range(2, len(scores) + 1)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(shares))
    assert shares[-1] in (0.0, 1.0)


def test_a_group_of_one_does_not_exist():
    with pytest.raises(ValueError, match="groups of 1"):
        effective_share([0.0, 1.0], 1)


def test_scores_that_differ_by_rounding_are_equal():
    assert effective_share([0.1 + 0.2, 0.3], 2) == 0.0


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(min_value=1, max_value=50)),
        min_size=2,
        max_size=7,
    ),
    st.data(),
)
def test_useful_tokens_are_those_of_the_subsets_that_differ(pairs, data):
    size = data.draw(st.integers(min_value=2, max_value=len(pairs)))
    forecast = forecast_results([result("e", [s for s, _ in pairs], [n for _, n in pairs])])
    found = next(s for s in forecast.sizes if s.group_size == size)
    subsets = list(itertools.combinations(pairs, size))
    tokens = [sum(n for _, n in subset) for subset in subsets]
    useful = [
        total if len({s for s, _ in subset}) > 1 else 0 for total, subset in zip(tokens, subsets, strict=True)
    ]
    assert found.useful_tokens_per_group == pytest.approx(statistics.fmean(useful), abs=1e-9)
    assert found.useful_share == pytest.approx(sum(useful) / sum(tokens), abs=1e-9)
    assert forecast.useful_tokens_per_step(size, 10) == pytest.approx(10 * statistics.fmean(useful), abs=1e-8)


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=30))
def test_an_interval_holds_its_mean_and_stays_a_share(values):
    share = make_share(values)
    assert 0.0 <= share.low <= share.value + 1e-9
    assert share.value - 1e-9 <= share.high <= 1.0


@pytest.mark.parametrize(
    ("scores", "kind"),
    [
        ([1.0, 0.0], "effective"),
        ([1.0, 1.0], "too_easy"),
        ([1.2, 1.2], "too_easy"),
        ([0.0, 0.0], "too_hard"),
        ([-1.0, -1.0], "too_hard"),
        ([0.3, 0.3], "level"),
        ([1.0], "invalid"),
        ([], "invalid"),
    ],
)
def test_groups_are_told_apart_by_what_their_samples_came_to(scores, kind):
    assert classify(scores, full_score=1.0) == kind


def test_fractions_kinds_filter_and_json():
    groups = [
        result("easy", [1.0] * 4, [10] * 4),
        result("hard", [0.0] * 4, [30] * 4),
        result("good", [1.0, 0.0, 0.0, 1.0], [10] * 4),
        result("lost", [None, None, None, 1.0], [5] * 4),
    ]
    forecast = forecast_results(groups)
    assert forecast.kinds == {"effective": 1, "too_easy": 1, "too_hard": 1, "level": 0, "invalid": 1}
    assert {kind: share.value for kind, share in forecast.fractions.items()} == {
        "effective": 0.25,
        "too_easy": 0.25,
        "too_hard": 0.25,
        "level": 0.0,
        "invalid": 0.25,
    }
    assert [size.group_size for size in forecast.sizes] == [2, 3, 4]
    assert [size.examples for size in forecast.sizes] == [3, 3, 3]
    assert {d.example_id: d.kind for d in forecast.dropped} == {
        "easy": "always_solved",
        "hard": "never_solved",
    }
    by_id = {d.example_id: d for d in forecast.dropped}
    assert (by_id["easy"].chance_low, by_id["easy"].chance_high) == pytest.approx((0.5101, 1.0), abs=1e-4)
    assert (by_id["hard"].chance_low, by_id["hard"].chance_high) == pytest.approx((0.0, 0.4899), abs=1e-4)
    assert forecast.dropped_tokens == pytest.approx(160 / (40 + 120 + 40 + 5))
    data = forecast.as_dict()
    assert data["sizes"][2]["effective"]["value"] == pytest.approx(1 / 3)
    assert data["dropped"][0]["example_id"] in {"easy", "hard"}
    found = {f.code: f for f in judge_forecast(forecast)}
    assert set(found) == {"forecast_invalid", "suggested_group_size", "suggested_filter"}
    assert "1 always solved (chance at least 51%) and 1 never solved (chance at most 49%)" in (
        found["suggested_filter"].message
    )
    assert "78% of the tokens" in found["suggested_filter"].message
    assert all(f.check == "forecast" for f in found.values())


def test_a_model_that_never_succeeds_is_told_to():
    forecast = forecast_results(sample_policy(0.0, 1, examples=30))
    [warning] = [f for f in judge_forecast(forecast) if f.level == "warning"]
    assert warning.code == "forecast_little_signal"
    assert "0% (0% to 11%)" in warning.message
    assert "30 too hard" in warning.message
    assert forecast.suggested_group_size is None


def test_the_suggested_group_size_is_the_smallest_that_is_nearly_as_good():
    coin = forecast_results(sample_policy(0.5, 3, examples=200, samples=16))
    assert coin.suggested_group_size == 5  # 1 - 2 / 2**5 = 0.94 is 0.9 of nearly 1; 4 gives 0.875
    rare = forecast_results(sample_policy(0.02, 3, examples=200, samples=16))
    assert rare.suggested_group_size > 12
    [note] = [f for f in judge_forecast(coin) if f.code == "suggested_group_size"]
    assert note.message.startswith("groups of 5 keep 90%")


def test_without_lengths_there_are_no_token_figures():
    forecast = forecast_results([result("a", [0.0, 1.0], [3, None])])
    assert forecast.at_samples.useful_tokens_per_group is None
    assert forecast.at_samples.useful_share is None
    assert forecast.dropped_tokens is None
    assert forecast.useful_tokens_per_step(2, 8) is None


def test_a_size_that_was_not_sampled_is_not_forecast():
    forecast = forecast_results([result("a", [0.0, 1.0], [3, 3])])
    assert forecast.useful_tokens_per_step(3, 8) is None


def test_single_samples_forecast_nothing():
    forecast = forecast_results([result("a", [1.0]), result("b", [0.0])])
    assert forecast.sizes == ()
    assert forecast.at_samples is None
    assert [f.code for f in judge_forecast(forecast)] == ["no_forecast"]


def test_no_groups_are_refused():
    with pytest.raises(ValueError, match="at least one group"):
        forecast_signal([])


def test_rollout_groups_are_read_as_they_come_from_a_run():
    rollouts = tuple(
        Rollout(
            rollout_id=f"g-{i}",
            example_id="e",
            sample=i,
            split="train",
            rewards={"r": score},
            score=score,
            termination_reason="finished",
        )
        for i, score in enumerate([0.0, 1.0, 1.0])
    )
    forecast = forecast_signal([RolloutGroup(group_id="g", example_id="e", rollouts=rollouts)])
    assert forecast.sizes[0].effective.value == pytest.approx(2 / 3)
    assert forecast.at_samples.effective.value == 1.0
