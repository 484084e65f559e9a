"""From the rows of one optimiser step to the forward passes that it is cut into.

Packed rows are a token tree: rows that share nothing are separate trees, which cannot see each
other and whose positions start at 0; a prefix that rows share, such as a system prompt with
tools, is computed once. Letters: O trained tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from castform_trainer.learning.tree import TokenSequence, TokenTree, make_trees
from castform_trainer.learning.tree_tensors import TreeTensors, tree_to_tensors
from castform_trainer.losses.supervised import divide_weights


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Token ids and how much the prediction of each counts. A row of a dataset is one or several."""

    row: int
    """Number of the row in its file, from 0."""
    ids: Sequence[int]
    weights: Sequence[float]
    """One an id; 0 where nothing is trained, as for the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """One forward and backward pass."""

    tensors: TreeTensors
    """Its weights are divided by the sum over the whole step."""
    alone: bool
    """It is a single sample, which needs no mask but the model's own."""
    samples_O: torch.Tensor
    """Which of the samples that were given each trained token is of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SftBatch:
    """One optimiser step."""

    micro_batches: tuple[MicroBatch, ...]
    trained_tokens: int
    """Tokens of weight above 0."""
    computed_tokens: int
    """Tokens that pass through the model: shared prefixes once, nothing behind the last trained one."""
    sample_tokens: int
    """Tokens of the samples as they are."""


def make_batch(
    samples: Sequence[Sample],
    *,
    tokens_per_microbatch: int,
    packing: bool,
    dtype: torch.dtype = torch.float32,
) -> SftBatch:
    """Cut samples into micro-batches whose weights have one denominator.

    Without packing each sample is computed by itself, and nothing is padded. Raises ValueError
    when no token is trained or a weight is negative.
    """
    sequences = [
        TokenSequence(ids=sample.ids, mask=[weight > 0 for weight in sample.weights], rollout=str(place))
        for place, sample in enumerate(samples)
    ]
    pieces = [[place] for place in range(len(samples))] if not packing else [list(range(len(samples)))]
    laid = [
        (piece, tree)
        for piece in pieces
        for tree in make_trees([sequences[place] for place in piece], max_nodes=tokens_per_microbatch)
    ]
    weights = divide_weights(
        [samples[piece[o.sequence]].weights[o.position] for piece, tree in laid for o in tree.occurrences]
    )
    micro_batches, start = [], 0
    for piece, tree in laid:
        stop = start + len(tree.occurrences)
        micro_batches.append(_to_micro_batch(tree, piece, weights[start:stop], dtype))
        start = stop
    return SftBatch(
        micro_batches=tuple(micro_batches),
        trained_tokens=len(weights),
        computed_tokens=sum(len(tree.ids) for _, tree in laid),
        sample_tokens=sum(len(sample.ids) for sample in samples),
    )


def _to_micro_batch(
    tree: TokenTree, piece: Sequence[int], weights: Sequence[float], dtype: torch.dtype
) -> MicroBatch:
    samples = [piece[occurrence.sequence] for occurrence in tree.occurrences]
    return MicroBatch(
        tensors=TreeTensors(**tree_to_tensors(tree), weights_O=torch.tensor(weights, dtype=dtype)),
        alone=len(set(samples)) == 1,
        samples_O=torch.tensor(samples),
    )
