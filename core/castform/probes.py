"""Answers that must not be paid, and what an environment paid for them.

A probe "scores" on an example when it earns as much as the right answer there; what it
earns short of that is partial credit, shown by component. `castform.probing` plays them.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform.gold import Rendering, gold_script
from castform.rollouts import RolloutGroup
from castform.scripted_replies import Script, ScriptedRequest
from castform.seeds import derive_seed

NOISE_CHARACTERS = 2000
REFUSAL = "I'm sorry, but I can't help with that."


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeContext:
    """What a probe may draw on for one example."""

    example_id: str
    gold: Any
    """Its right answer, None if unknown."""
    other_gold: Any
    """A different right answer of another example, None if there is none."""
    rendering: Rendering
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One way not to solve the task."""

    name: str
    what: str
    """For the reader: what the model says."""
    make: Callable[[ProbeContext], Script | None]
    """The script for an example; None where the probe does not apply."""
    allowed_share: float = 0.05
    """Share of examples on which it may earn as much as the right answer, by coincidence."""


def _echo(request: ScriptedRequest) -> str:
    for message in reversed(request.messages):
        if message["role"] == "user":
            content = message["content"]
            if isinstance(content, str):
                return content
            return "\n".join(part.get("text", "") for part in content or ())
    return ""


def _noise(context: ProbeContext) -> Script:
    rng = random.Random(derive_seed(context.seed, "noise", context.example_id))
    letters = string.ascii_letters + string.digits + string.punctuation + " \n"
    text = "".join(rng.choices(letters, k=NOISE_CHARACTERS))
    return lambda request: text


def _other(context: ProbeContext) -> Script | None:
    return None if context.other_gold is None else gold_script(context.other_gold, context.rendering)


PROBES: tuple[Probe, ...] = (
    Probe(name="empty", what="an empty answer", make=lambda context: lambda request: ""),
    Probe(name="echo", what="the prompt, repeated", make=lambda context: _echo),
    Probe(
        name="other_answer",
        what="the right answer of another example",
        make=_other,
        allowed_share=0.25,
    ),
    Probe(name="refusal", what="a refusal", make=lambda context: lambda request: REFUSAL),
    Probe(name="noise", what=f"{NOISE_CHARACTERS:,} characters of noise", make=_noise),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeOutcome:
    """What one probe, or the right answer itself, earned over the examples."""

    name: str
    what: str
    examples: int
    """On how many examples it was played."""
    scored: int
    paid_in_full: Sequence[str]
    """Ids of the examples on which it earned as much as the right answer."""
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
        return bool(self.scored) and len(self.paid_in_full) / self.scored > self.allowed_share


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeReport:
    """What the probes found."""

    gold: ProbeOutcome | None
    """None when the environment gives no right answers."""
    rendering: str
    """How the right answer was written down."""
    unpaid_gold: Sequence[str]
    """Ids of examples whose right answer earns no more than an empty one, or is not scored."""
    outcomes: Sequence[ProbeOutcome]
    crashes: Sequence[str]
    """What the environment raised, instead of scoring or failing a rollout."""
    full_score: float | None
    """Median score of the right answers."""
    groups: Sequence[RolloutGroup] = ()
    """What was played, for the record."""
