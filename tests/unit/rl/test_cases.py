"""Cases F2 (policy terms), F3, F5 and F6 from the field, bound to the real functions."""

from __future__ import annotations

import math

import torch

from castform_trainer.learning.logprobs import pair_logprobs
from castform_trainer.losses import GrpoConfig, grpo_terms
from castform_trainer.rl.advantage import discounted_returns
from castform_trainer.rl.batch import pack
from castform_trainer.rl.weighting import make_weights, weighted_sum


def rejected(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001  # the case asks for any refusal
        return str(error)
    raise AssertionError("was accepted")


def near(found, expected):
    return all(abs(p - q) < 1e-9 for p, q in zip(found, expected))


def policy_terms(new, old, advantage, mask):
    """The loss over the masked tokens of one sequence, clip 0.2 on both sides."""
    kept = [index for index, sampled in enumerate(mask) if sampled]
    wide = torch.float64
    new_O, old_O = (torch.tensor([values[i] for i in kept], dtype=wide) for values in (new, old))
    config = GrpoConfig(clip_low=0.2, clip_high=0.2)
    terms = grpo_terms(new_O, old_O, old_O, torch.full_like(new_O, advantage), config)
    weights = make_weights([0] * len(kept), [0] * len(kept))
    return {
        "ratio": terms.ratio_O.tolist(),
        "loss": weighted_sum(terms.terms_O.tolist(), weights),
        "length": len(kept),
    }


def token_loss(losses, masks, micro=None):
    """Sum of weight * loss over micro-batches of `micro` sequences, weights from the whole step."""
    places = [(s, t) for s, mask in enumerate(masks) for t, kept in enumerate(mask) if kept]
    weights = make_weights([s for s, _ in places], [s for s, _ in places])
    size = micro or max(1, len(losses))
    total = 0.0
    for start in range(0, len(losses), size):
        part = [(losses[s][t], w) for (s, t), w in zip(places, weights) if start <= s < start + size]
        total += weighted_sum([term for term, _ in part], [weight for _, weight in part])
    return total


def sampler_logprob(logits, temperature, index):
    rows, tokens = torch.tensor([0]), torch.tensor([index])
    return float(pair_logprobs(torch.tensor([logits]), rows, tokens, temperature=temperature))


def returns(rewards, mask, gamma):
    return discounted_returns(rewards, mask, gamma=gamma)


def test_f2_logprobs_are_of_the_tempered_distribution():
    assert abs(sampler_logprob([2.0, 0.0, -1.0], 0.5, 0) - -0.020581) < 1e-5
    assert abs(sampler_logprob([2.0, 0.0, -1.0], 0.5, 1) - -4.020581) < 1e-5
    lp = sampler_logprob([2.0, 0.0, -1.0], 0.5, 0)
    assert policy_terms([lp], [lp], 1.0, [1])["ratio"] == [1.0]


def test_f3_packing_keeps_one_value_a_token():
    p = pack(
        [
            {"ids": [5, 6, 7], "mask": [0, 1, 1], "logprobs": [0.0, -0.2, -0.3]},
            {"ids": [5, 8], "mask": [0, 1], "logprobs": [0.0, -0.4]},
        ]
    )
    assert p["ids"] == [5, 6, 7, 5, 8] and p["logprobs"] == [0.0, -0.2, -0.3, 0.0, -0.4]
    assert p["mask"] == [0, 1, 1, 0, 1] and p["position_ids"] == [0, 1, 2, 0, 1]
    assert p["seq_ids"] == [0, 0, 0, 1, 1]
    rejected(lambda: pack([{"ids": [5, 6, 7], "mask": [0, 1, 1], "logprobs": [-0.2, -0.3]}]))


def test_f3_a_trained_first_token_is_refused():
    message = rejected(lambda: pack([{"ids": [5, 6], "mask": [1, 1], "logprobs": [-0.1, -0.2]}]))
    assert "first token" in message


def test_f5_the_denominator_is_what_is_kept_however_the_batch_is_cut():
    assert token_loss([[1.0] * 4, [9.0] * 6], [[1] * 4, [0] * 6]) == 1.0
    x = ([[1.0] * 4, [3.0]], [[1] * 4, [1]])
    assert abs(token_loss(*x) - 1.4) < 1e-9 and abs(token_loss(*x, micro=1) - 1.4) < 1e-9
    assert token_loss([[9.0] * 6], [[0] * 6]) == 0.0


def test_f6_tool_tokens_influence_nothing():
    n = float("nan")
    lp = [-0.2, -0.5, n, n, -0.1]
    t = policy_terms(lp, lp, 1.0, [1, 1, 0, 0, 1])
    assert t["loss"] == -1.0 and t["length"] == 3
    got = returns([0, 0, 0, 0, 1.0], [1, 1, 0, 0, 1], gamma=0.9)
    assert near([got[0], got[1], got[4]], [0.81, 0.9, 1.0])
    t = policy_terms(
        [math.log(x) for x in (0.6, 0.3, 0.35)], [math.log(x) for x in (0.5, 0.4, 0.2)], 1.0, [1, 1, 1]
    )
    assert near(t["ratio"], [1.2, 0.75, 1.75]) and abs(t["loss"] + 1.05) < 1e-9
