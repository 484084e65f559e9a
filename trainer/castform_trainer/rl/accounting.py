"""Where every rollout went: issued = trained + filtered + failed + stale + pending, at every moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Fate = Literal["trained", "filtered", "failed", "stale"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Disposition:
    """What training did with one rollout."""

    fate: Fate
    reason: str = ""
    """Of filtered and failed; empty otherwise."""

    def __str__(self) -> str:
        return f"{self.fate}({self.reason})" if self.reason else self.fate


@dataclass(kw_only=True, slots=True)
class Ledger:
    """Counts rollouts from issue to their end; each ends exactly once."""

    issued: int = 0
    settled: Counter[str] = field(default_factory=Counter)
    """Text of a disposition to how many rollouts ended so."""
    pending: set[str] = field(default_factory=set)
    """Ids of rollouts that were issued and have not ended."""

    def issue(self, rollout_ids: Iterable[str]) -> None:
        """Count rollouts that are about to run. ValueError for an id that is running."""
        for rollout_id in rollout_ids:
            if rollout_id in self.pending:
                raise ValueError(f"rollout {rollout_id} is running already")
            self.pending.add(rollout_id)
            self.issued += 1

    def settle(self, dispositions: Mapping[str, Disposition]) -> None:
        """Count rollouts that ended. ValueError for one that is not running."""
        for rollout_id, disposition in dispositions.items():
            if rollout_id not in self.pending:
                raise ValueError(f"rollout {rollout_id} is not running, yet it ended as {disposition}")
            self.pending.remove(rollout_id)
            self.settled[str(disposition)] += 1

    def check(self) -> None:
        """Raise RuntimeError when rollouts were lost or made up: a bug, never a state of a run."""
        if self.issued != sum(self.settled.values()) + len(self.pending):
            raise RuntimeError(f"rollouts are not conserved: {self.as_dict()}")

    def total(self, fate: Fate) -> int:
        """Return how many rollouts ended so, whatever the reason."""
        return sum(count for name, count in self.settled.items() if name.partition("(")[0] == fate)

    def copy(self) -> Ledger:
        """Return an independent copy."""
        return Ledger(issued=self.issued, settled=Counter(self.settled), pending=set(self.pending))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for the run store and the checkpoint."""
        return {
            "issued": self.issued,
            "trained": self.total("trained"),
            "filtered": self.total("filtered"),
            "failed": self.total("failed"),
            "stale": self.total("stale"),
            "pending": len(self.pending),
            "by_reason": dict(sorted(self.settled.items())),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Ledger:
        """Read back a ledger without pending rollouts."""
        return cls(issued=data["issued"], settled=Counter(data["by_reason"]))
