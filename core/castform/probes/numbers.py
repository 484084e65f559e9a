"""Probes that are no proper number: a reward that computes with them must not pay or break."""

from __future__ import annotations

from collections.abc import Callable

from castform.probes.probe import Probe, ProbeContext
from castform.scripted_replies import Script

HUGE_DIGITS = 400
"""More than a float holds."""


def _say(text: str) -> Callable[[ProbeContext], Script | None]:
    def make(context: ProbeContext) -> Script | None:
        if context.gold_text is not None and context.gold_text.strip().casefold() == text:
            return None
        written = context.rendering.write(text)
        return lambda request: written

    return make


PROBES = (
    Probe(name="nan", what="nan", make=_say("nan")),
    Probe(name="inf", what="inf", make=_say("inf")),
    Probe(name="huge", what=f"a number of {HUGE_DIGITS} digits", make=_say("1" + "0" * (HUGE_DIGITS - 1))),
)
