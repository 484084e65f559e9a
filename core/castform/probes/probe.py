"""What a probe is, and what an environment paid for it.

A probe is an answer whose right verdict is known beforehand. It is "paid in full" on an
example when it earns as much as the right answer does there; what it earns short of that is
partial credit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from castform.gold import Rendering
from castform.rollouts import RolloutGroup
from castform.scripted_replies import Script

Verdict = Literal["wrong", "right"]

COINCIDENCE = 0.05
"""Share of examples on which a wrong answer may happen to be as good as the right one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeContext:
    """What a probe may draw on for one example."""

    example_id: str
    gold: Any
    """Its right answer, None if unknown."""
    gold_text: str | None = None
    """The right answer as text; None when it is unknown or a conversation."""
    other_gold: Any = None
    """A different right answer of another example, None if there is none."""
    candidates: Sequence[str] = ()
    """Right answers of other examples that differ from this one's and from each other."""
    majority: str | None = None
    """The right answer that most examples share."""
    majority_is_right: bool = False
    common_start: str | None = None
    """What most right answers begin with: one character."""
    prompt: str = ""
    """The texts of the example's data, the right answer aside."""
    rendering: Rendering
    seed: int


def always(_: ProbeContext) -> bool:
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One answer with a known verdict."""

    name: str
    what: str
    """For the reader: what the model says."""
    make: Callable[[ProbeContext], Script | None]
    """The script for an example; None where the probe does not apply."""
    verdict: Verdict = "wrong"
    """What an honest reward says of it."""
    needs_gold: bool = False
    """Whether saying it takes knowing the example's right answer; a policy cannot learn to."""
    counts: Callable[[ProbeContext], bool] = always
    """Where the verdict holds: the most common answer is wrong only where it is not the right one."""
    allowed_share: float = COINCIDENCE
    max_examples: int | None = None
    """Costly: played on so many examples, in groups of its own. None: on all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeOutcome:
    """What one probe, or the right answer itself, earned over the examples."""

    name: str
    what: str
    verdict: Verdict
    needs_gold: bool
    examples: int
    """On how many examples it was played."""
    scored: int
    counted: int
    """Scored where the verdict holds."""
    paid_in_full: Sequence[str]
    """Ids of the counted examples on which it earned as much as the right answer."""
    unpaid: Sequence[str]
    """Ids of the other counted ones."""
    mean_score: float | None
    share_of_gold: float | None
    """Mean score over the right answers' mean score; None where that is unknown or not positive."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Mean of each component."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Unscored attempts by reason."""
    allowed_share: float = 0.0

    @property
    def scores(self) -> bool:
        """Whether the reward pays it as if it were right, beyond coincidence."""
        return bool(self.counted) and len(self.paid_in_full) / self.counted > self.allowed_share


@dataclass(frozen=True, kw_only=True, slots=True)
class Crash:
    """An answer that the environment failed to score."""

    probe: str
    example_id: str
    reason: str
    error: str

    def __str__(self) -> str:
        return f"{self.probe}: {self.error}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeReport:
    """What the probes found."""

    gold: ProbeOutcome | None
    """None when the environment gives no right answers."""
    rendering: str
    """How the right answer was written down."""
    unpaid_gold: Sequence[str]
    """Ids of examples whose right answer earns no more than any wrong one, or is not scored."""
    outcomes: Sequence[ProbeOutcome]
    """Of the probes that applied somewhere."""
    crashes: Sequence[Crash]
    """Where the environment raised or hung, instead of scoring or failing a rollout."""
    unreachable: Sequence[Crash]
    """Where something outside the environment was missing: a judge, a sandbox."""
    full_score: float | None
    """Median score of the right answers."""
    majority: str | None = None
    """The most common right answer."""
    inapplicable: Sequence[str] = ()
    """Probes that had nothing to say on any example."""
    skipped: Sequence[str] = ()
    """Ids of examples for which no time was left."""
    groups: Sequence[RolloutGroup] = ()
    """What was played, for the record."""
    probe_of: Mapping[str, str] = field(default_factory=dict)
    """Rollout id to the probe that it played."""

    def outcome(self, name: str) -> ProbeOutcome | None:
        """Return the outcome of a probe, None when it did not apply."""
        return next((outcome for outcome in self.outcomes if outcome.name == name), None)
