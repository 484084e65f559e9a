"""log p of given tokens under given logits, in fp32, with as few passes over the vocabulary as can be.

Letters: R rows of logits, V vocabulary, U pairs of (row, token).
"""

from __future__ import annotations

from typing import Any

import torch

CHUNK_ROWS = 256
"""Rows whose probabilities exist at the same time."""


class _PairLogprobs(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """Keeps the logits and one number a row instead of a second copy of the probabilities."""

    @staticmethod
    def forward(
        ctx: Any, logits_RV: torch.Tensor, rows_U: torch.Tensor, tokens_U: torch.Tensor, scale: float
    ) -> torch.Tensor:
        wide = torch.float64 if logits_RV.dtype == torch.float64 else torch.float32
        norms_R = torch.cat(
            [torch.logsumexp(chunk.to(wide) * scale, dim=-1) for chunk in logits_RV.split(CHUNK_ROWS)]
        )
        ctx.save_for_backward(logits_RV, norms_R, rows_U, tokens_U)
        ctx.scale = scale
        return logits_RV[rows_U, tokens_U].to(wide) * scale - norms_R[rows_U]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor, None, None, None]:
        logits_RV, norms_R, rows_U, tokens_U = ctx.saved_tensors
        grad_U = grads[0]
        row_sums_R = torch.zeros_like(norms_R).index_add_(0, rows_U, grad_U)
        grad_RV = torch.empty_like(logits_RV)
        for start in range(0, len(logits_RV), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            probs = (logits_RV[rows].to(norms_R.dtype) * ctx.scale).sub_(norms_R[rows, None]).exp_()
            grad_RV[rows] = probs.mul_(-ctx.scale * row_sums_R[rows, None])
        grad_RV.index_put_((rows_U, tokens_U), (grad_U * ctx.scale).to(grad_RV.dtype), accumulate=True)
        return grad_RV, None, None, None


def pair_logprobs(
    logits_RV: torch.Tensor, rows_U: torch.Tensor, tokens_U: torch.Tensor, *, temperature: float = 1.0
) -> torch.Tensor:
    """Return log_softmax(logits / temperature)[row, token] for each pair, [U], at least fp32.

    The logits are divided before the softmax; dividing log-probabilities is something else.
    """
    result: torch.Tensor = _PairLogprobs.apply(logits_RV, rows_U, tokens_U, 1.0 / temperature)
    return result
