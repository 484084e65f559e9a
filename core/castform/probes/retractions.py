"""Probes that hold the right answer and mean another: taken back, negated, cut off, drawn out.

They take knowing the right answer, so no policy is paid for them by accident; but a reward
that pays them does not read what the text says.
"""

from __future__ import annotations

import re

from castform.probes.probe import Probe, ProbeContext
from castform.scripted_replies import Script

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _retracted(context: ProbeContext) -> Script | None:
    gold = context.gold_text
    if gold is None or not context.candidates:
        return None
    write = context.rendering.write
    written = f"{write(gold)}\n\nNo, that is wrong. I take it back:\n\n{write(context.candidates[0])}"
    return lambda request: written


def _negated(context: ProbeContext) -> Script | None:
    gold = context.gold_text
    if gold is None:
        return None
    written = context.rendering.write(f"anything but {gold}, which is wrong")
    return lambda request: written


def _longer(context: ProbeContext) -> Script | None:
    """Return a number that holds the right one: 42 in 7421."""
    gold = context.gold_text
    if gold is None or not _NUMBER.fullmatch(gold):
        return None
    sign, digits = ("-", gold[1:]) if gold.startswith("-") else ("", gold)
    written = context.rendering.write(f"{sign}7{digits}1")
    return lambda request: written


PROBES = (
    Probe(
        name="retracted",
        what="the right answer, taken back for a wrong one",
        make=_retracted,
        needs_gold=True,
    ),
    Probe(name="negated", what="the right answer, called wrong", make=_negated, needs_gold=True),
    Probe(name="longer", what="a number with the right one inside", make=_longer, needs_gold=True),
)
