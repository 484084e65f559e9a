"""What a rule is, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from castform.testing.conformance.examined import Examined

State = Literal["held", "broken", "not_checked", "accepted"]


class NotCheckedError(Exception):
    """Raised by a rule that cannot be checked on this environment; the text says why."""


class RuleTimeoutError(Exception):
    """A rule was not done in time."""

    def __init__(self, seconds: float, place: object = None) -> None:
        """`place` is where the environment's code stood then; None where it held nothing up itself."""
        where = "" if place is None else f": the environment stood at {place}"
        super().__init__(f"not done after {seconds:g} s{where}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Breach:
    """One thing that breaks a rule."""

    message: str
    """What was seen, with the values."""
    way_out: str
    """What the author can do."""
    example_id: str | None = None
    """An example on which it shows."""

    def describe(self) -> str:
        place = f" [example {self.example_id}]" if self.example_id is not None else ""
        return f"{self.message}{place}\n    way out: {self.way_out}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule that every environment keeps."""

    name: str
    promise: str
    """What holds, in one sentence."""
    check: Callable[[Examined], Sequence[Breach]]
    """Returns what breaks it. Raises NotCheckedError where it cannot be checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleResult:
    """What came of one rule."""

    rule: str
    state: State
    breaches: Sequence[Breach] = ()
    reason: str = ""
    """Why it was not checked, or why the author accepts the breach."""
    seconds: float = 0.0

    def describe(self) -> str:
        """Return one line for a rule that held or was not checked, more for a broken one."""
        if self.state == "held":
            return f"{self.rule}: held"
        if self.state == "not_checked":
            return f"{self.rule}: not checked: {self.reason}"
        head = f"{self.rule}: broken, accepted ({self.reason})" if self.state == "accepted" else self.rule
        return "\n  ".join([f"{head}:", *(breach.describe() for breach in self.breaches)])


@dataclass(frozen=True, kw_only=True, slots=True)
class ConformanceReport:
    """What came of every rule, in the order in which they were checked."""

    environment: str
    results: Sequence[RuleResult]
    seconds: float = 0.0

    @property
    def broken(self) -> list[RuleResult]:
        """Rules that do not hold and that the author does not accept."""
        return [result for result in self.results if result.state == "broken"]

    @property
    def not_checked(self) -> list[RuleResult]:
        return [result for result in self.results if result.state == "not_checked"]

    def result(self, rule: str) -> RuleResult:
        """Return what came of one rule. KeyError for a rule that was not asked for."""
        found = next((result for result in self.results if result.rule == rule), None)
        if found is None:
            raise KeyError(rule)
        return found

    def describe(self) -> str:
        """Return everything that is broken, and what was not checked."""
        lines = [result.describe() for result in self.broken]
        lines += [result.describe() for result in self.not_checked]
        held = sum(result.state == "held" for result in self.results)
        broken = len(self.broken)
        head = (
            f"{self.environment} breaks {broken} rule{'s' * (broken != 1)}"
            if broken
            else f"{self.environment} conforms"
        )
        return "\n".join([f"{head} ({held} of {len(self.results)} held)", *lines])
