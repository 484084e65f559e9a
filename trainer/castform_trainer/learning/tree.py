"""Lay sequences that share prefixes out as token trees, so that each shared token is computed once.

Sorted sequences are a trie in depth-first order: a sequence reuses the nodes of the prefix it
shares with the one before it and appends the rest. A node may attend to itself and to its
ancestors, which in that order is `k <= q < end[k]`; its position is its depth. Sequences that
share nothing are separate trees and cannot see each other.

Letters: N nodes, U unique (parent, token) pairs to be scored, O trained occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenSequence:
    """Tokens, some of which are trained."""

    ids: Sequence[int]
    mask: Sequence[int | bool]
    """1 where the prediction of the token is trained."""
    rollout: str
    """The rollout, or row of a dataset, that it is part of: a token counts once in each."""
    calls: Sequence[str] = ()
    """Which recorded call sampled each token, one a token; empty: tokens are told apart by prefix alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Occurrence:
    """One sampled token that is trained, at one place in one rollout."""

    sequence: int
    """Index into the sequences that were given."""
    position: int
    """Index into that sequence's ids."""
    pair: int
    """Index of its (parent, token) among the tree's pairs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenTree:
    """The forest of one forward pass."""

    ids: list[int]
    """[N] token of each node, depth first."""
    depths: list[int]
    """[N] position of each node, from 0."""
    ends: list[int]
    """[N] one past the last node of the subtree under each node."""
    pair_parents: list[int]
    """[U] node whose logits score the pair."""
    pair_tokens: list[int]
    """[U] token that is scored."""
    occurrences: list[Occurrence]
    """[O]"""


def check_mask(sequence: TokenSequence) -> None:
    """Raise ValueError when lengths differ or the first token, which nothing predicts, is trained."""
    if len(sequence.ids) != len(sequence.mask):
        raise ValueError(
            f"{sequence.rollout!r}: ids and mask have {len(sequence.ids)} and {len(sequence.mask)} "
            "entries, but belong together one to one"
        )
    if sequence.mask and sequence.mask[0]:
        raise ValueError(f"{sequence.rollout!r}: its first token is marked as sampled")


def make_trees(sequences: Sequence[TokenSequence], *, max_nodes: int) -> list[TokenTree]:
    """Cut the sequences into trees of at most `max_nodes` nodes (a longer sequence gets its own).

    A token that several segments of one rollout mark as sampled by the same call after the same
    prefix is one occurrence. Nodes after which nothing is trained are left out: they cost and teach nothing.
    """
    for sequence in sequences:
        check_mask(sequence)
    order = sorted(range(len(sequences)), key=lambda index: tuple(sequences[index].ids))
    trained = _find_trained(sequences, order)
    trees: list[TokenTree] = []
    chunk: list[int] = []
    nodes = 0
    previous: Sequence[int] = ()
    for index in order:
        if not trained[index]:
            continue
        needed = sequences[index].ids[: trained[index][-1]]
        new = len(needed) - _shared_length(previous, needed)
        if chunk and nodes + new > max_nodes:
            trees.append(_lay_out(sequences, trained, chunk))
            chunk, nodes, new = [], 0, len(needed)
        chunk.append(index)
        nodes += new
        previous = needed if new else previous
    if chunk:
        trees.append(_lay_out(sequences, trained, chunk))
    return trees


def _find_trained(sequences: Sequence[TokenSequence], order: Sequence[int]) -> list[list[int]]:
    """Return, per sequence, the positions it trains: none twice for the same rollout and prefix."""
    trained: list[list[int]] = [[] for _ in sequences]
    seen: set[tuple[str, int, str]] = set()
    for index, path in _walk(sequences, order):
        sequence = sequences[index]
        for position, sampled in enumerate(sequence.mask):
            if not sampled:
                continue
            call = sequence.calls[position] if sequence.calls else ""
            key = (sequence.rollout, path[position], call)
            if key not in seen:
                seen.add(key)
                trained[index].append(position)
    return trained


def _walk(sequences: Sequence[TokenSequence], order: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield (sequence, trie node of each of its tokens) in sorted order."""
    path: list[int] = []
    previous: Sequence[int] = ()
    count = 0
    for index in order:
        ids = sequences[index].ids
        shared = _shared_length(previous, ids)
        path = path[:shared] + list(range(count, count + len(ids) - shared))
        count += len(ids) - shared
        previous = ids
        yield index, path


def _lay_out(
    sequences: Sequence[TokenSequence], trained: Sequence[Sequence[int]], chunk: Sequence[int]
) -> TokenTree:
    tree = TokenTree(ids=[], depths=[], ends=[], pair_parents=[], pair_tokens=[], occurrences=[])
    pairs: dict[tuple[int, int], int] = {}
    path: list[int] = []
    previous: Sequence[int] = ()
    for index in chunk:
        ids, positions = sequences[index].ids, trained[index]
        needed = ids[: positions[-1]]
        shared = _shared_length(previous, needed)
        if shared < len(needed):
            for node in path[shared:]:
                tree.ends[node] = len(tree.ids)
            del path[shared:]
            previous = needed
        for depth in range(shared, len(needed)):
            path.append(len(tree.ids))
            tree.ids.append(needed[depth])
            tree.depths.append(depth)
            tree.ends.append(-1)
        for position in positions:
            key = (path[position - 1], ids[position])
            if key not in pairs:
                pairs[key] = len(pairs)
                tree.pair_parents.append(key[0])
                tree.pair_tokens.append(key[1])
            tree.occurrences.append(Occurrence(sequence=index, position=position, pair=pairs[key]))
    for node in path:
        tree.ends[node] = len(tree.ids)
    return tree


def _shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    limit = min(len(first), len(second))
    for index in range(limit):
        if first[index] != second[index]:
            return index
    return limit
