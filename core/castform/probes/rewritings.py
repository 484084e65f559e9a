"""Probes that are right: the right answer, written as a model might also write it."""

from __future__ import annotations

import re
from collections.abc import Callable

from castform.gold import RENDERINGS, Rendering
from castform.probes.probe import Probe, ProbeContext
from castform.scripted_replies import Script

_ABOUT_CASE = re.compile(r"\b(?:upper|lower|letter)?[- ]?case\b|\bcapital|\bcaesar|\bcipher", re.IGNORECASE)
"""Tasks in which capitals are part of the answer."""
_PLAIN_WORDS = re.compile(r"[A-Za-z][A-Za-z ,.'-]*")
_AS_GIVEN, _IN_BOX = RENDERINGS[0].name, "\\boxed{}"


def _rewrite(write: Callable[[str, Rendering], str | None]) -> Callable[[ProbeContext], Script | None]:
    def make(context: ProbeContext) -> Script | None:
        if context.gold_text is None:
            return None
        written = write(context.gold_text, context.rendering)
        return None if written is None else lambda request: written

    return make


def _case(context: ProbeContext) -> Script | None:
    gold = context.gold_text
    if gold is None or not _PLAIN_WORDS.fullmatch(gold) or _ABOUT_CASE.search(context.prompt):
        return None
    changed = gold.lower() if gold.lower() != gold else gold.upper()
    written = context.rendering.write(changed)
    return lambda request: written


def _in_sentence(gold: str, rendering: Rendering) -> str:
    if rendering.name == _AS_GIVEN:
        return f"So the answer is {gold}."
    return f"I worked it out step by step. {rendering.write(gold)}"


def _in_box(gold: str, rendering: Rendering) -> str | None:
    return None if rendering.name == _IN_BOX else rendering.write(f"\\boxed{{{gold}}}")


def _right(name: str, what: str, make: Callable[[ProbeContext], Script | None]) -> Probe:
    return Probe(name=name, what=what, make=make, verdict="right", needs_gold=True)


PROBES = (
    _right(
        "gold_newline",
        "the right answer and a line end",
        _rewrite(lambda gold, rendering: f"{rendering.write(gold)}\n"),
    ),
    _right(
        "gold_spaces",
        "the right answer between blanks",
        _rewrite(lambda gold, rendering: rendering.write(f"  {gold} ")),
    ),
    _right("gold_case", "the right answer in other case", _case),
    _right("gold_sentence", "the right answer in a sentence", _rewrite(_in_sentence)),
    _right("gold_box", "the right answer in a box", _rewrite(_in_box)),
)
