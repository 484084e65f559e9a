"""One segment of a rollout as the policy loss reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from castform_trainer.learning.tree import TokenSequence


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSequence(TokenSequence):
    """One segment of a rollout, ready to be trained on. Trained is what the policy sampled."""

    logprobs: Sequence[float]
    """The sampler's own, at its temperature; read only where mask is 1."""
    advantage: float


def check_sequence(sequence: TrainSequence) -> None:
    """Raise ValueError when lengths differ or the first token, which nothing predicts, is trained."""
    lengths = (len(sequence.ids), len(sequence.mask), len(sequence.logprobs))
    if len(set(lengths)) != 1:
        raise ValueError(
            f"rollout {sequence.rollout!r}: ids, mask and logprobs have {lengths[0]}, {lengths[1]} and "
            f"{lengths[2]} entries, but belong together one to one"
        )
    if sequence.mask and sequence.mask[0]:
        raise ValueError(f"rollout {sequence.rollout!r}: its first token is marked as sampled")
