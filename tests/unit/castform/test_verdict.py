"""Verdicts: right words, honest intervals, and at most 5 % false claims when nothing changed."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.eval_result import EvalResult, ExampleResult, RolloutResult, pass_at_k
from castform.intervals import bootstrap_interval, sign_flip_p
from castform.lengths import RolloutLengths
from castform.verdict import compare

NO_LENGTHS = RolloutLengths(turns=0, prompt_tokens=None, completion_tokens=None, context_tokens=None)


def make_result(scores, *, name="before", component="correct", pass_at=1.0) -> EvalResult:
    """`scores` maps example ids to the scores of their samples; None is a failed rollout."""
    examples = []
    for example_id, values in scores.items():
        rollouts = [
            RolloutResult(
                rollout_id=f"{name}-{example_id}-{i}",
                score=value,
                rewards={} if value is None else {component: value, "format": 1.0},
                termination_reason="model_error" if value is None else "finished",
                error=None,
                finish_reasons=("stop",),
                lengths=NO_LENGTHS,
                seconds=0.0,
            )
            for i, value in enumerate(values)
        ]
        examples.append(ExampleResult(example_id=example_id, rollouts=tuple(rollouts)))
    samples = max(map(len, scores.values()), default=1)
    return EvalResult(
        name=name,
        split="eval",
        samples=samples,
        seed=0,
        pass_at=pass_at,
        examples=tuple(examples),
        seconds=0.0,
    )


def test_pass_at_k_is_the_closed_form():
    assert pass_at_k(4, 1, 2) == 0.5
    assert pass_at_k(4, 3, 2) == 1.0
    assert pass_at_k(4, 0, 4) == 0.0
    for wrong in ((4, 5, 1), (4, 1, 5), (4, 1, 0), (0, 0, 1)):
        with pytest.raises(ValueError, match="does not exist"):
            pass_at_k(*wrong)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_subsets_with_a_pass(case):
    import itertools

    n, c, k = case
    subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_an_example_with_too_few_scored_samples_has_no_pass_at_k():
    result = make_result({"a": [1.0, None], "b": [0.0, 1.0]})
    assert result.pass_at_k(2) == 1.0
    assert result.pass_at_k(1) == 0.75
    assert result.pass_at_k(4) is None


def test_a_clear_gain_is_better_and_the_mirror_is_worse():
    before = make_result({str(i): [0.0] for i in range(40)})
    after = make_result({str(i): [1.0 if i < 30 else 0.0] for i in range(40)})
    verdict = compare(before, after, "correct")
    assert verdict.word == "better"
    assert verdict.judged.difference == 0.75
    assert 0 < verdict.judged.low < 0.75 < verdict.judged.high <= 1
    assert compare(after, before, "correct").word == "worse"
    assert "better: correct 0.000 -> 0.750" in verdict.describe()
    [form] = [c for c in verdict.components if c.name == "format"]
    assert (form.word, form.difference) == ("no difference shown", 0.0)


def test_the_same_seed_gives_the_same_verdict():
    rng = random.Random(1)
    before = make_result({str(i): [rng.random()] for i in range(30)})
    after = make_result({str(i): [rng.random()] for i in range(30)})
    assert compare(before, after, seed=3, resamples=500) == compare(before, after, seed=3, resamples=500)
    assert compare(before, after, seed=3, resamples=500) != compare(before, after, seed=4, resamples=500)


def test_examples_unscored_on_either_side_are_left_out_and_counted():
    before = make_result({"a": [1.0], "b": [None], "c": [0.0], "only-before": [1.0]})
    after = make_result({"a": [1.0], "b": [1.0], "c": [None], "only-after": [1.0]})
    verdict = compare(before, after)
    assert (verdict.left_out, verdict.score.examples) == (4, 1)
    assert verdict.word == "no difference shown"


def test_nothing_scored_is_no_difference_shown():
    verdict = compare(make_result({"a": [None]}), make_result({"a": [1.0]}))
    assert (verdict.word, verdict.score, verdict.left_out) == ("no difference shown", None, 1)
    assert "no example has score on both sides" in verdict.describe()


def test_an_unknown_component_is_named():
    with pytest.raises(ValueError, match="no reward component 'corect'; there are correct, format"):
        compare(make_result({"a": [1.0]}), make_result({"a": [1.0]}), "corect")


def test_one_lucky_example_does_not_make_a_model_better():
    before = make_result({str(i): [0.0] for i in range(4)})
    after = make_result({str(i): [1.0] for i in range(4)})
    assert compare(before, after).word == "no difference shown"  # 1 in 8 by chance alone


@pytest.mark.parametrize(("examples", "share"), [(100, 0.02), (100, 0.04), (100, 0.5), (12, 0.5), (30, 0.1)])
def test_no_effect_gives_a_false_better_at_most_in_one_of_twenty(examples, share):
    rng = random.Random(7)
    trials = 120
    false_better = 0
    for trial in range(trials):
        sides = [{str(i): [float(rng.random() < share)] for i in range(examples)} for _ in range(2)]
        verdict = compare(make_result(sides[0]), make_result(sides[1]), seed=trial, resamples=100)
        false_better += verdict.word == "better"
    assert false_better / trials <= 0.05


def test_a_real_gain_is_found():
    rng = random.Random(3)
    found = 0
    for trial in range(30):
        before = make_result({str(i): [float(rng.random() < 0.2)] for i in range(100)})
        after = make_result({str(i): [float(rng.random() < 0.6)] for i in range(100)})
        found += compare(before, after, seed=trial, resamples=200).word == "better"
    assert found >= 29


def test_the_bootstrap_interval_covers_the_mean_about_as_often_as_it_says():
    rng = random.Random(5)
    covered = sum(
        low <= 0.3 <= high
        for trial in range(200)
        for low, high in [
            bootstrap_interval([float(rng.random() < 0.3) for _ in range(40)], seed=trial, resamples=200)
        ]
    )
    assert 0.9 <= covered / 200 <= 0.985


def test_the_interval_is_the_percentile_one_for_many_values_and_wider_for_few():
    rng = random.Random(2)
    many = [rng.gauss(0, 1) for _ in range(400)]
    low, high = bootstrap_interval(many, seed=0, resamples=4000)
    half = 1.96 * statistics.stdev(many) / 400**0.5
    assert (high - low) / 2 == pytest.approx(half, rel=0.08)
    few = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    low, high = bootstrap_interval(few, seed=0, resamples=4000)
    assert (high - low) / 2 > 1.96 * statistics.pstdev(few) / 6**0.5
    assert 0 <= low <= 2.5 <= high <= 5
    assert bootstrap_interval([3.0], seed=0) == (3.0, 3.0)


def test_the_sign_flip_test_is_exact_for_few_differences():
    assert sign_flip_p([1.0] * 5, seed=0) == 2 / 2**5
    assert sign_flip_p([1.0, 1.0, -1.0], seed=0) == 1.0
    assert sign_flip_p([0.0, 0.0], seed=0) == 1.0
    assert sign_flip_p([3.0, 1.0], seed=0) == 0.5


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=16, max_size=40))
def test_the_sampled_sign_flip_test_agrees_with_the_binomial(differences):
    from math import comb

    ups = sum(d > 0 for d in differences)
    n = sum(d != 0 for d in differences)
    far = abs(2 * ups - n)
    exact = sum(comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= far) / 2**n
    assert sign_flip_p(differences, seed=1, resamples=4000) == pytest.approx(exact, abs=0.04)


def test_a_result_survives_the_way_through_json():
    import json

    result = make_result({"a": [1.0, None], "b": [0.5, 0.0]})
    data = json.loads(json.dumps(result.as_dict()))
    again = EvalResult.from_dict(data)
    assert again.as_dict() == result.as_dict()
    assert data["counts"] == {"examples": 2, "rollouts": 4, "scored": 3, "failed": 1}
    assert data["failures"] == {"model_error": 1}
    assert data["score"]["mean"] == pytest.approx((1.0 + 0.25) / 2)  # a failure is in no mean
    assert data["signal_share"] == 1.0  # only b has two scored samples
