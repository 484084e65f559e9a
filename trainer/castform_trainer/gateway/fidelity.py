"""How faithfully a rollout's calls were recorded: counts for the report, and the proof behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from castform.calls import ModelCall
from castform.errors import RunFailedError
from castform_trainer.gateway.trajectory import Segment, Unchosen, build_tree, choose_trained


@dataclass(frozen=True, kw_only=True, slots=True)
class Fidelity:
    """Counts over calls (one a reply) and tokens. They add up with `+`."""

    first_calls: int = 0
    spliced_calls: int = 0
    forked_calls: int = 0
    first_tokens: int = 0
    """Prompt tokens of calls that continued nothing."""
    spliced_tokens: int = 0
    forked_tokens: int = 0
    sampled_tokens: int = 0
    """What the engine sampled, in all calls."""
    trained_tokens: int = 0
    aborted_tokens: int = 0
    """Sampled, but the client went away or the session ended."""
    unchosen_tokens: int = 0
    """Sampled as one of several replies, and not continued."""
    broken_calls: int = 0
    """Said to be spliced, but not starting with the ids of an earlier call: 0 by construction."""

    def __add__(self, other: Fidelity) -> Fidelity:
        return Fidelity(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


def count_fidelity(calls: Sequence[ModelCall], *, unchosen: Unchosen = "mask") -> Fidelity:
    """Return the counts of one rollout. sampled = trained + aborted + unchosen, always."""
    nodes = build_tree(calls)
    trained = choose_trained(nodes, unchosen=unchosen)
    counts = dict.fromkeys((f.name for f in fields(Fidelity)), 0)
    for node in nodes:
        call, size = node.call, len(node.sampled)
        counts[f"{call.splice}_calls"] += 1
        counts[f"{call.splice}_tokens"] += len(node.prompt)
        counts["sampled_tokens"] += size
        counts["broken_calls"] += call.splice == "spliced" and node.parent is None
        if call.call_id in trained:
            counts["trained_tokens"] += size
        elif call.finish_reason == "abort":
            counts["aborted_tokens"] += size
        else:
            counts["unchosen_tokens"] += size
    return Fidelity(**counts)


EngineLog = Mapping[str, tuple[Sequence[int], Sequence[int]]]
"""What the engine itself says of each call id: (prompt ids it was given, ids it sampled)."""


def count_reencoded(segments: Sequence[Segment], engine_log: EngineLog) -> int:
    """Return how many trained ids, or ids in front of them, differ from what the engine saw and sampled.

    0 by construction; a call that the engine does not know counts in full.
    """
    wrong = 0
    for segment in segments:
        for span in segment.spans:
            prompt, sampled = engine_log.get(span.call_id, ((), ()))
            seen = (*prompt, *sampled)
            held = segment.ids[: span.end]
            wrong += sum(a != b for a, b in zip(seen, held, strict=False)) + abs(len(seen) - len(held))
            wrong += sum(not kept for kept in segment.mask[span.start : span.end])
    return wrong


def check_fidelity(segments: Sequence[Segment], engine_log: EngineLog) -> None:
    """Raise RunFailedError when any trained token is not exactly what the engine sampled."""
    wrong = count_reencoded(segments, engine_log)
    if wrong:
        raise RunFailedError(
            f"{wrong} tokens of {len(segments)} segments differ from what the engine sampled",
            hint="this is a fault of castform: keep the run folder and report it",
        )
