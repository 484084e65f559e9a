"""What a rule of sandboxes is, and what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from castform.sandbox.contract import Capabilities

if TYPE_CHECKING:
    from castform.testing.sandboxes.subject import Examined

State = Literal["held", "broken", "not_claimed", "not_checked"]

LONGEST_SHOWN = 600
"""Characters of what a rule saw; an exception of a provider can have any length."""


class BrokenRuleError(Exception):
    """Raised by a rule: what was seen, with the values."""


class NotCheckedError(Exception):
    """Raised by a rule that cannot be checked here; the text says why."""


def claim_all(capabilities: Capabilities) -> str | None:
    """Every provider claims it."""
    return None


def claim_isolation(capabilities: Capabilities) -> str | None:
    """Only who isolates claims it."""
    return None if capabilities.isolated else "the provider says that it isolates nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxRule:
    """One rule that every provider keeps which claims it."""

    name: str
    promise: str
    """What holds, in one sentence."""
    check: Callable[[Examined], Awaitable[None]]
    """Raises BrokenRuleError, or NotCheckedError where it cannot be checked."""
    find_disclaimer: Callable[[Capabilities], str | None] = claim_all
    """Returns why a provider with these capabilities does not claim it; None when it does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RuleResult:
    """What came of one rule."""

    rule: str
    promise: str
    state: State
    reason: str = ""
    """What was seen, or why it is not claimed or could not be checked."""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "rule": self.rule,
            "promise": self.promise,
            "state": self.state,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
        }

    def describe(self) -> str:
        """Return one line."""
        return f"{self.rule}: {self.state.replace('_', ' ')}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxReport:
    """What came of every rule, in the order in which they were checked."""

    provider: str
    capabilities: Capabilities
    results: Sequence[RuleResult]

    @property
    def broken(self) -> list[RuleResult]:
        return [result for result in self.results if result.state == "broken"]

    def count(self, state: State) -> int:
        return sum(result.state == state for result in self.results)

    def describe(self) -> str:
        """Return everything that did not simply hold, below a summary."""
        head = (
            f"{self.provider}: {self.count('held')} of {len(self.results)} rules held, "
            f"{self.count('broken')} broken, {self.count('not_claimed')} not claimed, "
            f"{self.count('not_checked')} not checked"
        )
        return "\n".join([head, *(f"  {r.describe()}" for r in self.results if r.state != "held")])


def check_equal(what: str, seen: object, expected: object) -> None:
    """Raise BrokenRuleError unless two values are equal."""
    if seen != expected:
        raise BrokenRuleError(f"{what} is {shorten(repr(seen))}, not {shorten(repr(expected))}")


def check_that(holds: bool, words: str) -> None:
    """Raise BrokenRuleError with these words unless something holds."""
    if not holds:
        raise BrokenRuleError(words)


def shorten(text: str) -> str:
    """Return a text that a report has room for: what is longer keeps its beginning and its end."""
    return (
        text
        if len(text) <= LONGEST_SHOWN
        else f"{text[: LONGEST_SHOWN // 2]} … {text[-LONGEST_SHOWN // 3 :]}"
    )
