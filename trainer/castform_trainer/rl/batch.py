"""From trained sequences to the tensors of one optimiser step.

Letters: O trained occurrences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from castform_trainer.learning.tree import TokenTree, make_trees
from castform_trainer.learning.tree_tensors import TreeTensors, tree_to_tensors
from castform_trainer.rl.sequence import TrainSequence, check_sequence
from castform_trainer.rl.weighting import Aggregation, make_weights


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch(TreeTensors):
    """One forward and backward pass. The weights sum to `share`, 1 as a rule, over a step with token_mean."""

    sampler_logprobs_O: torch.Tensor
    advantages_O: torch.Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainBatch:
    """One optimiser step."""

    micro_batches: tuple[MicroBatch, ...]
    trained_tokens: int
    """Occurrences: the step's denominator."""
    tree_tokens: int
    """Nodes that are computed."""
    sequence_tokens: int
    """Tokens that a padding-free batch without sharing would compute."""


def make_batch(
    sequences: Sequence[TrainSequence],
    *,
    tokens_per_microbatch: int,
    aggregation: Aggregation = "token_mean",
    share: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> TrainBatch:
    """Cut the sequences of one optimiser step into micro-batches with weights fixed over the step.

    `share` scales every weight: a step that found signal in a quarter of its groups counts a quarter,
    as if the others were there with advantage 0.
    """
    for sequence in sequences:
        check_sequence(sequence)
    trees = make_trees(sequences, max_nodes=tokens_per_microbatch)
    trained = [occurrence for tree in trees for occurrence in tree.occurrences]
    weights = make_weights(
        [occurrence.sequence for occurrence in trained],
        [sequences[occurrence.sequence].rollout for occurrence in trained],
        aggregation=aggregation,
    )
    weights = [share * weight for weight in weights]
    micro_batches = []
    start = 0
    for tree in trees:
        stop = start + len(tree.occurrences)
        micro_batches.append(_to_tensors(tree, sequences, weights[start:stop], dtype))
        start = stop
    return TrainBatch(
        micro_batches=tuple(micro_batches),
        trained_tokens=len(trained),
        tree_tokens=sum(len(tree.ids) for tree in trees),
        sequence_tokens=sum(len(sequence.ids) for sequence in sequences),
    )


def pack(samples: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Lay `{ids, mask, logprobs}` samples end to end, one value a token, each sample by itself.

    Positions restart at each sample and `seq_ids` says which sample a token belongs to. Raises
    ValueError for unequal lengths or a trained first token.
    """
    packed: dict[str, list[Any]] = {
        name: [] for name in ("ids", "mask", "logprobs", "position_ids", "seq_ids")
    }
    for number, sample in enumerate(samples):
        check_sequence(
            TrainSequence(
                ids=sample["ids"],
                mask=sample["mask"],
                logprobs=sample["logprobs"],
                advantage=0.0,
                rollout=f"sample {number}",
            )
        )
        for name in ("ids", "mask", "logprobs"):
            packed[name] += sample[name]
        packed["position_ids"] += range(len(sample["ids"]))
        packed["seq_ids"] += [number] * len(sample["ids"])
    return packed


def _to_tensors(
    tree: TokenTree, sequences: Sequence[TrainSequence], weights: Sequence[float], dtype: torch.dtype
) -> MicroBatch:
    places = [(sequences[occurrence.sequence], occurrence.position) for occurrence in tree.occurrences]
    return MicroBatch(
        **tree_to_tensors(tree),
        sampler_logprobs_O=torch.tensor([item.logprobs[at] for item, at in places], dtype=dtype),
        advantages_O=torch.tensor([item.advantage for item, _ in places], dtype=dtype),
        weights_O=torch.tensor(weights, dtype=dtype),
    )
