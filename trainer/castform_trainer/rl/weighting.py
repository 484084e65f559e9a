"""How much each trained token counts, fixed over a whole optimiser step.

The loss of a step is sum(weight * term) over every trained token of every micro-batch and
rank. Because the weights are known before the first forward pass, the way a step is cut
cannot change its gradient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Literal

Aggregation = Literal["token_mean", "sequence_mean", "rollout_mean", "constant"]
"""token_mean: DAPO; sequence_mean: GRPO as published; rollout_mean: the same over all tokens of a
rollout; constant: Dr. GRPO, divided by a fixed length. In none of them does a rollout weigh more
because it was recorded as more sequences: with sequence_mean they share the weight of one."""


def make_weights(
    sequences: Sequence[Hashable],
    rollouts: Sequence[Hashable],
    *,
    aggregation: Aggregation = "token_mean",
    constant_length: int | None = None,
) -> list[float]:
    """Return one weight a trained token, given the sequence and rollout each belongs to.

    Nothing trained gives an empty list. Raises ValueError when `constant` has no length.
    """
    if not sequences:
        return []
    if aggregation == "token_mean":
        return [1.0 / len(sequences)] * len(sequences)
    if aggregation == "constant":
        if not constant_length:
            raise ValueError(f"constant_length is {constant_length}, but `constant` divides by it")
        return [1.0 / (constant_length * len(set(rollouts)))] * len(sequences)
    owners = sequences if aggregation == "sequence_mean" else rollouts
    lengths = Counter(owners)
    parts = Counter(rollout for _, rollout in set(zip(owners, rollouts, strict=True)))
    count = len(set(rollouts))
    return [
        1.0 / (count * parts[rollout] * lengths[owner])
        for owner, rollout in zip(owners, rollouts, strict=True)
    ]


def weighted_sum(terms: Sequence[float], weights: Sequence[float]) -> float:
    """Return sum(weight * term); 0.0 when nothing is trained."""
    return sum((weight * term for weight, term in zip(weights, terms, strict=True)), 0.0)
