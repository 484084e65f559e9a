"""From the recorded calls of one rollout to the conversations in them.

A call continues another when its messages begin with the other's messages and reply. A
conversation runs from the first message to a reply that no call continues: one a rollout as a
rule, several where the environment rewrote the history (compaction) or asked several agents.
Every reply belongs to one conversation as a turn to train on, in others it is context.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform.calls import ModelCall
from castform.sft.from_runs.messages import Message, compare_form, row_message, row_tools


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Messages in the form of a row, without weights."""

    messages: tuple[Message, ...]
    tools: tuple[Message, ...]
    turns: Mapping[int, ModelCall]
    """Index of a message to the call that sampled it, where it is this conversation's to train on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversations:
    """What was found in one rollout."""

    found: tuple[Conversation, ...]
    """The longest first."""
    left_out: Counter[str]
    """Replies that are in no conversation as a turn to train on, by reason."""
    changes: Counter[str]


@dataclass(kw_only=True, eq=False, slots=True)
class _Node:
    call: ModelCall
    start: bytes
    """Digest of the request."""
    prefixes: tuple[bytes, ...]
    """Digest of the request's first i messages, at i."""
    end: bytes
    """Digest of request and reply."""
    ancestors: dict[int, _Node] = field(default_factory=dict)
    """Index of a message in the request to the call that sampled it."""
    is_continued: bool = False


def find_conversations(
    calls: Sequence[ModelCall], transcript: Sequence[Mapping[str, Any]] = ()
) -> Conversations:
    """Return the conversations of a rollout's calls.

    A reply that was aborted is in none of them, nor is a try that was asked for again or one of
    several replies to a request, unless a call continues it or `transcript`, the conversation as
    the environment reported it, ends with it. Results of tools behind the last reply are taken
    from `transcript`. Raises UnfitError for content that is no text.
    """
    left_out: Counter[str] = Counter()
    nodes = _link([call for call in calls if call.finish_reason != "abort"])
    left_out["aborted"] = len(calls) - len(nodes)
    ends = _prefixes(transcript, nodes[-1].call.tools) if nodes and transcript else ()
    leaves = _choose_leaves(nodes, set(ends), left_out)
    changes: Counter[str] = Counter()
    used: set[str] = set()
    found = []
    for leaf in sorted(leaves, key=lambda node: -len(node.prefixes)):
        found.append(_make_conversation(leaf, transcript, ends, used, changes))
    return Conversations(found=tuple(found), left_out=+left_out, changes=changes)


def _link(calls: Sequence[ModelCall]) -> list[_Node]:
    nodes: list[_Node] = []
    ends: dict[bytes, _Node] = {}
    for call in calls:
        prefixes = _prefixes(call.messages, call.tools)
        node = _Node(call=call, start=prefixes[-1], prefixes=prefixes, end=_extend(prefixes[-1], call.reply))
        for place, message in enumerate(call.messages):
            parent = ends.get(prefixes[place + 1]) if message.get("role") == "assistant" else None
            if parent is not None:
                node.ancestors[place] = parent
                parent.is_continued = True
        nodes.append(node)
        known = ends.get(node.end)
        # Of equal replies to one request the first is continued, else the newest call.
        if known is None or known.call.index != call.index:
            ends[node.end] = node
    return nodes


def _choose_leaves(nodes: Sequence[_Node], shown: set[bytes], left_out: Counter[str]) -> list[_Node]:
    """Return the replies that end a conversation, and count those that were thrown away."""
    same: defaultdict[bytes, list[_Node]] = defaultdict(list)
    for node in nodes:
        same[node.start].append(node)
    leaves = []
    for tries in same.values():
        open_ends = [node for node in tries if not node.is_continued]
        in_transcript = [node for node in open_ends if node.end in shown][:1]
        if len(tries) == 1 or in_transcript:
            kept = open_ends if len(tries) == 1 else in_transcript
        elif len(open_ends) < len(tries) or any(node.call.index == tries[0].call.index for node in tries[1:]):
            kept = []  # one of the others was continued, or it is one of several replies to a request
        else:
            kept = open_ends[-1:]
        leaves += kept
        left_out["thrown away for another try"] += len(open_ends) - len(kept)
    return leaves


def _make_conversation(
    leaf: _Node,
    transcript: Sequence[Mapping[str, Any]],
    ends: Sequence[bytes],
    used: set[str],
    changes: Counter[str],
) -> Conversation:
    turns = {**leaf.ancestors, len(leaf.call.messages): leaf}
    raw = [
        turns[place].call.reply if place in turns else message
        for place, message in enumerate([*leaf.call.messages, leaf.call.reply])
    ]
    if leaf.end in ends:
        for message in transcript[ends.index(leaf.end) :]:
            if message.get("role") != "tool":
                break
            raw.append(message)
    new = {place: node.call for place, node in turns.items() if node.call.call_id not in used}
    used.update(call.call_id for call in new.values())
    return Conversation(
        messages=tuple(row_message(message, changes) for message in raw),
        tools=tuple(row_tools(leaf.call.tools, changes)),
        turns=new,
    )


def _prefixes(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> tuple[bytes, ...]:
    digests = [hashlib.blake2b(json.dumps(list(tools), sort_keys=True, default=str).encode()).digest()]
    for message in messages:
        digests.append(_extend(digests[-1], message))
    return tuple(digests)


def _extend(digest: bytes, message: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(digest + compare_form(message).encode()).digest()
