from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.calls import Sampling
from castform.errors import RunFailedError
from castform_trainer.engines.transformers_sampling import Draw, draw_tokens, uniform


def draw_one(logits: list[float], sampling: Sampling, step: int = 0) -> tuple[int, float]:
    ids, logprobs = draw_tokens(torch.tensor([logits]), [Draw(sampling=sampling, step=step)])
    return ids[0], logprobs[0]


def test_logprobs_are_those_of_the_tempered_logits() -> None:
    logprob_of = {}
    for step in range(2000):
        token, logprob = draw_one([2.0, 0.0, -1.0], Sampling(temperature=0.5, seed=1), step)
        logprob_of[token] = logprob
    assert logprob_of[0] == pytest.approx(-0.020581, abs=1e-5)
    assert logprob_of[1] == pytest.approx(-4.020581, abs=1e-5)


def test_greedy_reports_the_untempered_logprob() -> None:
    token, logprob = draw_one([2.0, 0.0, -1.0], Sampling(temperature=0))
    assert token == 0
    assert logprob == pytest.approx(-0.169846, abs=1e-5)


def test_frequencies_follow_the_distribution() -> None:
    logits = torch.tensor([[0.5, -0.3, 1.2, -2.0]])
    count = 20_000
    ids, _ = draw_tokens(
        logits.expand(count, -1), [Draw(sampling=Sampling(seed=7), step=i) for i in range(count)]
    )
    found = torch.bincount(torch.tensor(ids), minlength=4) / count
    assert (found - logits[0].softmax(-1)).abs().max() < 4 * math.sqrt(0.25 / count)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-6, 6, width=32), min_size=2, max_size=12),
    st.integers(0, 6),
    st.floats(0.05, 1.0),
    st.integers(0, 2**63 - 1),
)
def test_a_filtered_token_is_never_drawn_and_the_rest_sums_to_one(
    logits: list[float], top_k: int, top_p: float, seed: int
) -> None:
    sampling = Sampling(top_k=top_k, top_p=top_p, seed=seed)
    found = dict(draw_one(logits, sampling, step) for step in range(40))
    assert sum(math.exp(logprob) for logprob in found.values()) < 1 + 1e-4
    assert all(math.isfinite(logprob) for logprob in found.values())
    if top_k:
        assert len(found) <= top_k
        cut = sorted(logits, reverse=True)[:top_k][-1]
        assert all(logits[token] >= cut for token in found)


def test_top_p_keeps_the_token_that_crosses_it() -> None:
    logits = [math.log(p) for p in (0.5, 0.3, 0.2)]
    found = dict(draw_one(logits, Sampling(top_p=0.6, seed=3), step) for step in range(200))
    assert set(found) == {0, 1}
    assert found[1] == pytest.approx(math.log(0.3 / 0.8), abs=1e-5)


def test_a_row_draws_the_same_whatever_else_is_in_the_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn((6, 50), generator=generator)
    draws = [
        Draw(sampling=Sampling(seed=i, temperature=t), step=i) for i, t in enumerate((1, 0, 0.7, 1, 2, 1))
    ]
    together = draw_tokens(logits, draws)
    alone = [draw_tokens(logits[i : i + 1], [draw]) for i, draw in enumerate(draws)]
    assert together[0] == [ids[0] for ids, _ in alone]
    assert together[1] == [logprobs[0] for _, logprobs in alone]


def test_uniforms_are_spread_and_differ_between_neighbouring_seeds() -> None:
    values = [uniform(seed, step) for seed in range(50) for step in range(50)]
    assert len(set(values)) == 2500
    assert all(0 <= value < 1 for value in values)
    assert abs(sum(values) / 2500 - 0.5) < 0.03
    assert uniform(2**63 - 1, 0) != uniform(0, 0)


def test_the_last_uniform_never_leaves_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "castform_trainer.engines.transformers_sampling.uniform", lambda seed, step: 1 - 2**-53
    )
    token, logprob = draw_one([0.0, 0.0, -math.inf], Sampling())
    assert token == 1
    assert logprob == pytest.approx(math.log(0.5), abs=1e-6)


def test_logits_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(RunFailedError, match="not finite"):
        draw_one([math.nan, 0.0], Sampling())
