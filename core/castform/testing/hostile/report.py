"""What came of attacks, against what doing nothing earns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform.testing.hostile.attack import Attack

VERDICTS = ("held", "paid", "got out", "not tried", "not played")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackResult:
    """One attack on one task."""

    attack: Attack
    task: str
    status: str
    """How the attempt ended, in the words of what ran it."""
    reward: float | None = None
    """None: there is none."""
    floor: float = 0.0
    """What an agent gets that does nothing."""
    rewards: Mapping[str, float] | None = None
    floors: Mapping[str, float] | None = None
    """What that gets by name, where several rewards are given and none of them is the one."""
    breaches: Sequence[str] = ()
    """Where it got that no box lets it, in words."""
    error: str = ""
    """Why there is no reward, or how else it did not end well."""
    idle: str = ""
    """Why it could not be tried; empty when it was."""
    missed: str = ""
    """Why it was not played at all: what failed before it, or that nobody knows the floor. Empty when it was."""
    output: str = field(default="", repr=False)
    """The end of what it wrote."""
    seconds: float = 0.0

    @property
    def is_paid(self) -> bool:
        """Whether it earned more than doing nothing, by any name where there are several."""
        if self.floors is not None and self.rewards:
            return any(value > self.floors.get(name, 0.0) for name, value in self.rewards.items())
        return self.reward is not None and self.reward > self.floor

    @property
    def has_failed(self) -> bool:
        """Whether the attack came to nothing: neither paid nor out of the box."""
        return not self.is_paid and not self.breaches

    @property
    def verdict(self) -> str:
        if self.breaches:
            return "got out"
        if self.is_paid:
            return "paid"
        if self.missed:
            return "not played"
        return "not tried" if self.idle else "held"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "attack": self.attack.name,
            "tries": self.attack.tries,
            "task": self.task,
            "verdict": self.verdict,
            "status": self.status,
            "reward": self.reward,
            "floor": self.floor,
            "error": self.error or None,
            "breaches": list(self.breaches),
            "idle": self.idle or None,
            "missed": self.missed or None,
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class HostileReport:
    """Every attack on every task."""

    results: tuple[AttackResult, ...]

    @property
    def succeeded(self) -> list[AttackResult]:
        """Those that were paid or got out."""
        return [result for result in self.results if not result.has_failed]

    @property
    def unplayed(self) -> list[AttackResult]:
        """Those that tell nothing, since the run failed before them."""
        return [result for result in self.results if result.verdict == "not played"]

    def count(self, verdict: str) -> int:
        return sum(result.verdict == verdict for result in self.results)

    def describe(self) -> str:
        """Return a table of all, below a summary."""
        rows = [("VERDICT", "ATTACK", "TASK", "REWARD", "FLOOR", "STATUS", "")]
        for result in self.results:
            reward = "none" if result.reward is None else f"{result.reward:g}"
            said = "; ".join(result.breaches) or result.missed or result.idle or result.error
            words = (result.verdict, result.attack.name, result.task, reward, f"{result.floor:g}")
            rows.append((*words, result.status, said[:160]))
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = [
            "  ".join(
                [*(word.ljust(width) for word, width in zip(row, widths, strict=False)), row[6]]
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self.summarise(), *lines])

    def summarise(self) -> str:
        """Return one line."""
        counts = ", ".join(f"{self.count(verdict)} {verdict}" for verdict in VERDICTS)
        return f"{len(self.results)} attacks: {counts}"
