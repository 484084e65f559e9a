"""Weighted cross-entropy of given tokens.

    sum(w * -log pi) / sum(w)        over every trained token of the whole optimiser step

The denominator is fixed before the first forward pass, so the way a step is cut into
micro-batches cannot change its gradient. Letters: O trained tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def divide_weights(weights: Sequence[float]) -> list[float]:
    """Return the weights of a whole step divided by their sum.

    Raises ValueError for a weight that is negative or not finite, and when nothing weighs anything.
    """
    wrong = next((weight for weight in weights if not 0 <= weight < math.inf), None)
    if wrong is not None:
        raise ValueError(f"a token has the weight {wrong}, but weights are finite and not negative")
    total = math.fsum(weights)
    if total == 0:
        raise ValueError("no token of the step is trained")
    return [weight / total for weight in weights]


def supervised_loss(logprobs_O: torch.Tensor, weights_O: torch.Tensor) -> torch.Tensor:
    """Return the part of a step's loss that these tokens make; `weights_O` come from `divide_weights`."""
    return -(weights_O * logprobs_O).sum()
