"""The rubrics that a judge found by looking at a group's own answers."""

from __future__ import annotations

from dataclasses import dataclass

from benchmax.rewards.rubric import Rubric


@dataclass(frozen=True)
class AdaptiveRubrics:
    """Qualities to reward and faults to punish."""

    positive: tuple[Rubric, ...] = ()
    negative: tuple[Rubric, ...] = ()

    @property
    def all(self) -> tuple[Rubric, ...]:
        """Positive ones first."""
        return (*self.positive, *self.negative)
