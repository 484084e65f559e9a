"""What became of every rollout of a conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

USED = "used"


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutOutcome:
    """One rollout: used for rows, or left out for one reason."""

    run_id: str
    rollout_id: str
    example_id: str
    score: float | None
    outcome: str
    """`used`, or why not."""
    detail: str = ""
    """More about it: the rollout that it repeats, what is wrong with the row."""
    rows: int = 0
    sampled_rows: int = 0
    """Of these rows those with the sampled token ids."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(kw_only=True, slots=True)
class Report:
    """Every rollout once, in the order of steps, groups and samples."""

    rollouts: Sequence[RolloutOutcome] = ()
    trained_turns: int = 0
    masked_turns: Counter[str] = field(default_factory=Counter)
    """Replies that are in a row with weight 0, by reason."""
    left_out_replies: Counter[str] = field(default_factory=Counter)
    """Replies of used rollouts that are in no row, by reason."""
    changes: Counter[str] = field(default_factory=Counter)
    """What was written otherwise than the run had it, since a row cannot say it."""

    @property
    def counts(self) -> Counter[str]:
        """How many rollouts became what. They add up to all rollouts."""
        return Counter(rollout.outcome for rollout in self.rollouts)

    @property
    def rows(self) -> int:
        return sum(rollout.rows for rollout in self.rollouts)

    @property
    def sampled_rows(self) -> int:
        """Rows with the sampled token ids."""
        return sum(rollout.sampled_rows for rollout in self.rollouts)

    def as_dict(self, *, with_rollouts: bool = True) -> dict[str, Any]:
        """Return JSON values."""
        found: dict[str, Any] = {
            "rollouts": len(self.rollouts),
            "used": self.counts[USED],
            "left_out": {reason: n for reason, n in self.counts.most_common() if reason != USED},
            "rows": self.rows,
            "sampled_rows": self.sampled_rows,
            "trained_turns": self.trained_turns,
            "masked_turns": dict(self.masked_turns),
            "left_out_replies": dict(self.left_out_replies),
            "changes": dict(self.changes),
        }
        return {**found, "per_rollout": [r.as_dict() for r in self.rollouts]} if with_rollouts else found
