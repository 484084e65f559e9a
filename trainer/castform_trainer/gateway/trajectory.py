"""From recorded calls to what is trained: a tree of calls by their tokens, then one segment a leaf.

A call continues another when its prompt begins with the other's prompt and sampled ids. Every
sampled reply is trained exactly once, in the first segment that holds it; elsewhere the same
tokens are context. Only ids that the engine sampled can ever carry mask 1.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from castform.calls import ModelCall
from castform_trainer.gateway.errors import UntrainableCallError

Unchosen = Literal["mask", "train"]
PartKind = Literal["prompt", "gen_prompt", "sampled", "appended", "template"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Where in a segment the reply of one call is trained: ids[start:end]."""

    call_id: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One sequence to train on. The four lists have equal length."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    """1 where the id was sampled and is trained here."""
    logprobs: tuple[float, ...]
    """The sampler's log p where mask is 1, else 0.0."""
    versions: tuple[int, ...]
    """Adapter version that sampled the id where mask is 1, else 0."""
    spans: tuple[Span, ...] = ()
    """The trained replies, in order."""


@dataclass(kw_only=True, eq=False, slots=True)
class Node:
    """One call in the tree."""

    call: ModelCall
    prompt: tuple[int, ...]
    sampled: tuple[int, ...]
    logprobs: tuple[float, ...]
    parent: Node | None = None
    has_children: bool = False

    @property
    def end(self) -> int:
        return len(self.prompt) + len(self.sampled)


def build_segments(calls: Sequence[ModelCall], *, unchosen: Unchosen = "mask") -> list[Segment]:
    """Return the segments of a rollout's calls, branches that end in a trained reply first, longest first.

    Aborted replies are never trained. Of `n` replies to one request only those that a later call
    continues are trained, unless `unchosen` is "train". Segments without a trained token are left
    out. Raises UntrainableCallError, naming the field, for a call whose token data is missing or
    does not add up.
    """
    nodes = build_tree(calls)
    trained = choose_trained(nodes, unchosen=unchosen)
    segments = []
    leaves = [node for node in nodes if not node.has_children]
    for leaf in sorted(leaves, key=lambda node: (node.call.call_id not in trained, -node.end)):
        segment = _make_segment(leaf, trained)
        if segment.spans:
            segments.append(segment)
            trained -= {span.call_id for span in segment.spans}
    return segments


def build_tree(calls: Sequence[ModelCall]) -> list[Node]:
    """Return one node per call, in order, each linked to the longest earlier call it continues."""
    nodes: list[Node] = []
    ends: dict[tuple[str, tuple[int, ...]], Node] = {}
    lengths: defaultdict[str, set[int]] = defaultdict(set)
    for call in calls:
        node = check_call(call)
        for length in sorted(lengths[call.session_id], reverse=True):
            if length > len(node.prompt):
                continue
            parent = ends.get((call.session_id, node.prompt[:length]))
            if parent is not None:
                node.parent, parent.has_children = parent, True
                break
        nodes.append(node)
        if node.sampled and call.finish_reason != "abort":
            key = (call.session_id, node.prompt + node.sampled)
            known = ends.get(key)
            # Of equal replies to one request the first choice is continued, else the newest call.
            if known is None or known.call.index != call.index:
                ends[key] = node
            lengths[call.session_id].add(node.end)
    return nodes


def choose_trained(nodes: Sequence[Node], *, unchosen: Unchosen = "mask") -> set[str]:
    """Return the ids of the calls whose replies are trained."""
    choices: defaultdict[tuple[str, int], int] = defaultdict(int)
    for node in nodes:
        choices[node.call.session_id, node.call.index] += 1
    return {
        node.call.call_id
        for node in nodes
        if node.sampled
        and node.call.finish_reason != "abort"
        and (unchosen == "train" or node.has_children or choices[node.call.session_id, node.call.index] == 1)
    }


def check_call(call: ModelCall) -> Node:
    """Return a call's tokens. UntrainableCallError names the field that is missing or wrong."""
    if not call.prompt_ids:
        raise UntrainableCallError("prompt_ids", f"call {call.call_id} has no prompt ids")
    if call.sampled_ids is None:
        raise UntrainableCallError("sampled_ids", f"call {call.call_id} has no sampled token ids")
    if call.logprobs is None:
        raise UntrainableCallError("logprobs", f"call {call.call_id} has no logprobs")
    if len(call.logprobs) != len(call.sampled_ids):
        raise UntrainableCallError(
            "logprobs",
            f"call {call.call_id} has {len(call.logprobs)} logprobs for {len(call.sampled_ids)} token ids",
        )
    if not all(math.isfinite(value) for value in call.logprobs):
        raise UntrainableCallError("logprobs", f"call {call.call_id} has a logprob that is not finite")
    return Node(
        call=call,
        prompt=tuple(call.prompt_ids),
        sampled=tuple(call.sampled_ids),
        logprobs=tuple(call.logprobs),
    )


def rollout_mask(parts: Sequence[tuple[PartKind, Sequence[int]]]) -> tuple[list[int], list[int]]:
    """Return (ids, mask) of a sequence given in parts: only sampled ids are trained.

    The mask comes from where an id stands, never from which id it is: an appended end-of-turn
    id stays out even when it equals one that was sampled.
    """
    ids = [i for _, part in parts for i in part]
    mask = [int(kind == "sampled") for kind, part in parts for _ in part]
    return ids, mask


def _make_segment(leaf: Node, trained: set[str]) -> Segment:
    path: list[Node] = []
    node: Node | None = leaf
    while node is not None:
        path.append(node)
        node = node.parent
    path.reverse()
    ids: tuple[int, ...] = leaf.prompt + leaf.sampled
    parts: list[tuple[PartKind, Sequence[int]]] = []
    logprobs = [0.0] * len(ids)
    versions = [0] * len(ids)
    spans = []
    place = 0
    for node in path:
        if node.call.call_id not in trained:
            continue
        start = len(node.prompt)
        parts += [("prompt", ids[place:start]), ("sampled", node.sampled)]
        logprobs[start : node.end] = node.logprobs
        versions[start : node.end] = [node.call.version] * len(node.sampled)
        spans.append(Span(call_id=node.call.call_id, start=start, end=node.end))
        place = node.end
    parts.append(("appended", ids[place:]))
    joined, mask = rollout_mask(parts)
    return Segment(
        ids=tuple(joined),
        mask=tuple(mask),
        logprobs=tuple(logprobs),
        versions=tuple(versions),
        spans=tuple(spans),
    )
