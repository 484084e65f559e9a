"""What a trial of a bundle found out, as it goes from the bundle's process to the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

MAX_PAYLOAD_CHARACTERS = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialOptions:
    """What a trial looks at."""

    examples: int = 3
    """First examples of each split that are made."""
    rollout: bool = False
    """Play one rollout, answered with the right answer where the environment knows it."""
    timeout_seconds: float = 120.0
    """For all of it, the building of the Python environment not included."""
    environment_variables: Sequence[str] = ()
    """Names of variables that the bundle's process gets besides those that every process needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitReport:
    """The first examples of a split."""

    split: str
    examples: Sequence[Mapping[str, str]]
    """Each with `id` and `payload`, the payload as JSON text, cut at 2,000 characters."""
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutReport:
    """One scripted rollout."""

    example_id: str
    answer: Literal["right", "ok"]
    """What was played: the right answer, or the word ok where there is none."""
    termination_reason: str
    rewards: Mapping[str, float]
    error: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialReport:
    """What a bundle turned out to be in a process and a Python environment of its own."""

    class_name: str = ""
    """Module and qualified name. Empty when it was not loaded."""
    python_version: str = ""
    splits: Sequence[SplitReport] = ()
    diagnostics: Sequence[Mapping[str, str | None]] = ()
    """What the environment says of itself: severity, code, message, location."""
    rollout: RolloutReport | None = None
    failed_stage: str | None = None
    """Where it ended early: load, make, diagnostics, dataset, rollout."""
    error: str | None = None
    seconds: float = 0.0
    output: str = field(default="", repr=False)
    """The last of what it printed."""

    @property
    def faults(self) -> list[str]:
        """Everything that keeps the bundle from being used, in words."""
        faults = [] if self.error is None else [self.error]
        faults += [f"{s.split} dataset: {s.error}" for s in self.splits if s.error is not None]
        faults += [f"{d['code']}: {d['message']}" for d in self.diagnostics if d.get("severity") == "error"]
        if self.rollout is not None and self.rollout.error is not None:
            faults.append(f"rollout ended as {self.rollout.termination_reason}: {self.rollout.error}")
        return faults

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"loads": not self.faults, "faults": self.faults, **asdict(self)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], **more: Any) -> TrialReport:
        """Read what the bundle's process wrote. TypeError or ValueError when it is no report."""
        data = {**value, **more}
        data["splits"] = tuple(SplitReport(**split) for split in data.get("splits", ()))
        if data.get("rollout") is not None:
            data["rollout"] = RolloutReport(**data["rollout"])
        return cls(**data)
