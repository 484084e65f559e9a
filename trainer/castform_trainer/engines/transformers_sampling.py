"""Draw one token a row from logits, and say with which probability it was drawn.

Each row has its own stream of uniforms, a function of its seed and of the position in the
reply alone: what else is in the batch cannot change the draw. The token comes from the
inverse of the cumulative distribution, several times cheaper than `multinomial`.

Dims: N rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from castform.calls import Sampling
from castform.errors import RunFailedError

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """What one row asks for at this step."""

    sampling: Sampling
    step: int
    """Tokens of the reply drawn before this one."""


def draw_tokens(logits_NV: Tensor, draws: Sequence[Draw]) -> tuple[list[int], list[float]]:
    """Return an id a row and its log probability under the distribution it was drawn from.

    A row with temperature 0 takes the largest logit and reports its untempered log probability.
    Raises RunFailedError when the logits hold nan or inf.
    """
    device = logits_NV.device
    logits_NV = logits_NV.float()
    greedy = torch.tensor([d.sampling.temperature == 0 for d in draws], device=device)
    if all(d.sampling.temperature in (0, 1) for d in draws):
        scaled_NV = logits_NV
    else:
        temperature_N = torch.tensor([d.sampling.temperature or 1.0 for d in draws], device=device)
        scaled_NV = logits_NV / temperature_N[:, None]
    filtered = [i for i, d in enumerate(draws) if d.sampling.temperature and _has_filter(d.sampling)]
    if filtered:
        scaled_NV = scaled_NV.clone()
        for index in filtered:
            scaled_NV[index] = apply_filters(scaled_NV[index], draws[index].sampling)
    log_total_N = scaled_NV.logsumexp(-1)
    if bool(greedy.all()):
        ids_N = logits_NV.argmax(-1)
    else:
        uniform_N = torch.tensor(
            [uniform(d.sampling.seed, d.step) for d in draws], dtype=torch.float32, device=device
        )
        ids_N = _invert(scaled_NV, log_total_N, uniform_N)
        if bool(greedy.any()):
            ids_N = torch.where(greedy, logits_NV.argmax(-1), ids_N)
    logprobs_N = scaled_NV.gather(-1, ids_N[:, None])[:, 0] - log_total_N
    if not bool(logprobs_N.isfinite().all()):
        raise RunFailedError(
            "the model's logits are not finite", hint="its weights or the adapter are damaged"
        )
    return ids_N.tolist(), logprobs_N.tolist()


def apply_filters(scaled_V: Tensor, sampling: Sampling) -> Tensor:
    """Set the logits that top-k, then top-p, cut away to -inf.

    top-p keeps the fewest likeliest tokens whose probability together reaches it.
    """
    order = scaled_V.argsort(descending=True, stable=True)
    keep = order.numel() if sampling.top_k <= 0 else min(sampling.top_k, order.numel())
    if sampling.top_p < 1:
        before = scaled_V[order[:keep]].softmax(-1).cumsum(-1).roll(1)
        before[0] = 0
        keep = max(1, int((before < sampling.top_p).sum()))
    return scaled_V.index_fill(0, order[keep:], -torch.inf)


def uniform(seed: int, step: int) -> float:
    """Return number `step` of the stream that `seed` names, in [0, 1). (SplitMix64, Steele et al. 2014.)"""
    state = _mix(seed & _MASK)
    return (_mix((state + (step + 1) * _GOLDEN) & _MASK) >> 11) * 2.0**-53


def _invert(scaled_NV: Tensor, log_total_N: Tensor, uniform_N: Tensor) -> Tensor:
    """The first token whose cumulative probability exceeds the uniform; one of probability 0 never is."""
    cumulative_NV = (scaled_NV - log_total_N[:, None]).exp_().cumsum(-1)
    total_N = cumulative_NV[:, -1]
    below_total_N = torch.nextafter(total_N, torch.zeros_like(total_N))
    target_N = torch.minimum(uniform_N * total_N, below_total_N)
    found_N = torch.searchsorted(cumulative_NV, target_N[:, None], right=True)[:, 0]
    return found_N.clamp_max(scaled_NV.shape[1] - 1)  # only nan goes past the end


def _has_filter(sampling: Sampling) -> bool:
    return sampling.top_p < 1 or sampling.top_k > 0


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
