"""Run one group of rollouts through an endpoint and keep what happened.

Training, evaluation and validation share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from castform.calls import ModelCall

Split = Literal["train", "eval"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """One attempt at one example, settled: scored, or failed with a reason, never both."""

    rollout_id: str
    example_id: str
    sample: int
    """Place in the group, from 0."""
    split: Split
    rewards: Mapping[str, float]
    """Named components; empty when it was not scored."""
    score: float | None
    """Weighted sum of the components. None: not scored; a failure is never a number."""
    termination_reason: str
    error: str | None = None
    messages: Sequence[Mapping[str, Any]] = ()
    """The transcript, as the environment reported it or as the last call shows it."""
    calls: Sequence[ModelCall] = ()
    seed: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutGroup:
    """Siblings: several attempts at one example."""

    group_id: str
    example_id: str
    rollouts: tuple[Rollout, ...]
