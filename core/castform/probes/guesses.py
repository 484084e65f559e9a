"""Probes that guess: another example's answer, the most common one, how most answers begin."""

from __future__ import annotations

from castform.gold import gold_script
from castform.probes.probe import Probe, ProbeContext
from castform.scripted_replies import Script

OTHER_ANSWER_SHARE = 0.25
"""Of tasks with several right answers one may suit another example by chance."""


def _other(context: ProbeContext) -> Script | None:
    return None if context.other_gold is None else gold_script(context.other_gold, context.rendering)


def _constant(context: ProbeContext) -> Script | None:
    return _say(context, context.majority)


def _start(context: ProbeContext) -> Script | None:
    return _say(context, context.common_start)


def _say(context: ProbeContext, text: str | None) -> Script | None:
    if text is None:
        return None
    written = context.rendering.write(text)
    return lambda request: written


PROBES = (
    Probe(
        name="other_answer",
        what="the right answer of another example",
        make=_other,
        allowed_share=OTHER_ANSWER_SHARE,
    ),
    Probe(
        name="constant",
        what="the most common right answer, always",
        make=_constant,
        counts=lambda context: not context.majority_is_right,
        allowed_share=OTHER_ANSWER_SHARE,
    ),
    Probe(name="common_start", what="the one character that most right answers begin with", make=_start),
)
