"""Probes that give every answer at once: whoever looks for the right one will find it.

The right answer stands in the middle, so that a reward that reads the first or the last
answer only does not pay.
"""

from __future__ import annotations

import re

from castform.probes.probe import Probe, ProbeContext
from castform.scripted_replies import Script

MAX_CANDIDATES = 8
_OPTION = re.compile(r"(?m)^\s*\(?([A-Z])[.):]\s")


def _answers(context: ProbeContext) -> list[str] | None:
    gold = context.gold_text
    if gold is None:
        return None
    options = [letter for letter in _OPTION.findall(context.prompt) if letter != gold]
    others = list(dict.fromkeys(options if len(gold) == 1 and options else context.candidates))
    others = others[:MAX_CANDIDATES]
    if not others:
        return None
    if len(others) == 1:
        others *= 2
    middle = len(others) // 2
    return [*others[:middle], gold, *others[middle:]]


def _list(context: ProbeContext) -> Script | None:
    answers = _answers(context)
    if answers is None:
        return None
    written = context.rendering.write(", ".join(answers))
    return lambda request: written


def _full(context: ProbeContext) -> Script | None:
    answers = _answers(context)
    if answers is None:
        return None
    written = "\n".join(context.rendering.write(answer) for answer in answers)
    return lambda request: written


PROBES = (
    Probe(name="shotgun_list", what="every candidate in one answer", make=_list),
    Probe(name="shotgun_full", what="one answer after the other, for every candidate", make=_full),
)
