"""How faithfully a rollout's calls were recorded: counts for the report, and the proof behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from castform.calls import ModelCall
from castform.errors import RunFailedError
from castform.fidelity import CallFidelity, count_calls
from castform_trainer.gateway.trajectory import Segment, Unchosen, build_tree, choose_trained


@dataclass(frozen=True, kw_only=True, slots=True)
class Fidelity(CallFidelity):
    """Besides what any reader of calls counts, what becomes of the sampled tokens."""

    trained_tokens: int = 0
    unchosen_tokens: int = 0
    """Sampled as one of several replies, and not continued."""
    broken_calls: int = 0
    """Said to be spliced, but not starting with the ids of an earlier call: 0 by construction."""


def count_fidelity(calls: Sequence[ModelCall], *, unchosen: Unchosen = "mask") -> Fidelity:
    """Return the counts of one rollout. sampled = trained + aborted + unchosen, always.

    Raises UntrainableCallError for a call whose token data is missing or does not add up.
    """
    nodes = build_tree(calls)
    trained = choose_trained(nodes, unchosen=unchosen)
    kept = [node for node in nodes if node.call.call_id in trained]
    left = [n for n in nodes if n.call.call_id not in trained and n.call.finish_reason != "abort"]
    return Fidelity(
        **asdict(count_calls(calls) or CallFidelity()),
        trained_tokens=sum(len(node.sampled) for node in kept),
        unchosen_tokens=sum(len(node.sampled) for node in left),
        broken_calls=sum(node.call.splice == "spliced" and node.parent is None for node in nodes),
    )


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
