"""From the rows of one optimiser step to the forward passes that it is cut into.

Packed rows are a token tree: rows that share nothing are separate trees, which cannot see each
other and whose positions start at 0; a prefix that rows share, such as a system prompt with
tools, is computed once. Unpacked rows are rectangles of rows of about one length; packed rows that
are longer than the model's attention window are so, too, since a tree's mask knows no window.
Letters: O trained tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from castform_trainer.learning.tree import (
    Occurrence,
    TokenSequence,
    TokenTree,
    check_mask,
    make_trees,
)
from castform_trainer.learning.tree_tensors import TreeTensors, tree_to_tensors
from castform_trainer.losses.supervised import divide_weights

PADDING = 0
"""Any id: nothing looks at what stands behind a row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Token ids and how much the prediction of each counts. A row of a dataset is one or several."""

    row: int
    """Number of the row in its file, from 0."""
    ids: Sequence[int]
    weights: Sequence[float]
    """One an id; 0 where nothing is trained, as for the first."""
    last_message: int = 0
    """Index, among the row's messages, of the last turn that is trained in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """One forward and backward pass."""

    tensors: TreeTensors
    """Its weights are divided by the sum over the whole step."""
    rows: int | None
    """Of a rectangle; None for packed rows."""
    samples_O: torch.Tensor
    """Which of the samples that were given each trained token is of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SftBatch:
    """One optimiser step."""

    micro_batches: tuple[MicroBatch, ...]
    trained_tokens: int
    """Tokens of weight above 0."""
    computed_tokens: int
    """Tokens that pass through the model: shared prefixes once, padding too, nothing behind the last
    trained token."""
    sample_tokens: int
    """Tokens of the samples as they are."""


def make_batch(
    samples: Sequence[Sample],
    *,
    tokens_per_microbatch: int,
    packing: bool,
    window: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> SftBatch:
    """Cut samples into micro-batches whose weights have one denominator.

    `window` is how many tokens the model's narrowest attention spans; None: it sees everything.

    Raises ValueError when no token is trained, a weight is negative, or the first token has one.
    """
    sequences = [
        TokenSequence(ids=sample.ids, mask=[weight > 0 for weight in sample.weights], rollout=str(place))
        for place, sample in enumerate(samples)
    ]
    for sequence in sequences:
        check_mask(sequence)
    longest = 0 if not packing else math.inf if window is None else window
    packed, alone = _split(sequences, longest)
    packed_trees = make_trees(packed, max_nodes=tokens_per_microbatch)
    trees = [*packed_trees, *make_rectangles(alone, max_nodes=tokens_per_microbatch)]
    weights = divide_weights(
        [samples[o.sequence].weights[o.position] for tree in trees for o in tree.occurrences]
    )
    micro_batches, start = [], 0
    for place, tree in enumerate(trees):
        stop = start + len(tree.occurrences)
        part = torch.tensor(weights[start:stop], dtype=dtype)
        micro_batches.append(
            MicroBatch(
                tensors=TreeTensors(**tree_to_tensors(tree), weights_O=part),
                rows=None if place < len(packed_trees) else tree.depths.count(0),
                samples_O=torch.tensor([occurrence.sequence for occurrence in tree.occurrences]),
            )
        )
        start = stop
    return SftBatch(
        micro_batches=tuple(micro_batches),
        trained_tokens=len(weights),
        computed_tokens=sum(len(tree.ids) for tree in trees),
        sample_tokens=sum(len(sample.ids) for sample in samples),
    )


def _split(
    sequences: Sequence[TokenSequence], longest: float
) -> tuple[list[TokenSequence], list[TokenSequence]]:
    """Return all sequences twice, with nothing trained in those above `longest`, then in the others."""
    blank = [replace(sequence, mask=[False] * len(sequence.ids)) for sequence in sequences]
    pairs = [(s, b) if _needed(s) <= longest else (b, s) for s, b in zip(sequences, blank, strict=True)]
    return [short for short, _ in pairs], [long for _, long in pairs]


def _needed(sequence: TokenSequence) -> int:
    """Return how many tokens pass through the model: all in front of the last trained one."""
    return max((at for at, on in enumerate(sequence.mask) if on), default=0)


def make_rectangles(sequences: Sequence[TokenSequence], *, max_nodes: int) -> list[TokenTree]:
    """Lay sequences out in rectangles of at most `max_nodes` tokens, padding included, longest first.

    A rectangle is a tree too: each row is a chain from a root of its own, its padding at the end.
    What stands behind the last trained token is left out, and so are sequences without any.
    """
    needed = list(map(_needed, sequences))
    order = sorted((place for place, size in enumerate(needed) if size), key=lambda place: -needed[place])
    rectangles: list[list[int]] = []
    for place in order:
        if rectangles and (len(rectangles[-1]) + 1) * needed[rectangles[-1][0]] <= max_nodes:
            rectangles[-1].append(place)
        else:
            rectangles.append([place])
    return [_lay_rectangle(sequences, chunk, needed[chunk[0]]) for chunk in rectangles]


def _lay_rectangle(sequences: Sequence[TokenSequence], chunk: Sequence[int], width: int) -> TokenTree:
    tree = TokenTree(ids=[], depths=[], ends=[], pair_parents=[], pair_tokens=[], occurrences=[])
    for place in chunk:
        sequence, start = sequences[place], len(tree.ids)
        ids = list(sequence.ids[:width])
        tree.ids.extend([*ids, *[PADDING] * (width - len(ids))])
        tree.depths.extend(range(width))
        tree.ends.extend([start + width] * width)
        for position, is_trained in enumerate(sequence.mask):
            if is_trained:
                pair = len(tree.pair_tokens)
                tree.pair_parents.append(start + position - 1)
                tree.pair_tokens.append(sequence.ids[position])
                tree.occurrences.append(Occurrence(sequence=place, position=position, pair=pair))
    return tree
