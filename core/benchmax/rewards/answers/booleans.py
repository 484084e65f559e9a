"""Yes or no, true or false."""

from __future__ import annotations

import re

from benchmax.rewards.answers.plain import plain_words, undecorated
from benchmax.rewards.answers.reading import Slot

_TRUTHS = {"yes": True, "true": True, "no": False, "false": False}
_NO_SAY = r"(?!\s+(?:wait|one|idea|way|clue|answer|opinion|information)\b)"
"""Behind a "no" that says no no."""
_FIRST = re.compile(rf"\W*(yes|no|true|false)\b{_NO_SAY}", re.IGNORECASE)
_BOTH = re.compile(
    r"\W*(?:(?:either|both)\s+)?(yes|no|true|false)\b(?:\W|\b(?:and|or|also|but|maybe|then)\b)+(yes|no|true|false)\W*$",
    re.IGNORECASE | re.MULTILINE,
)
"""One, and at the end of its line or behind a line break another."""
_ANY = re.compile(
    rf"(\b(?:not|never|neither|isn't)\s+(?:\w+\s+)?)?\b(yes|no|true|false)\b{_NO_SAY}", re.IGNORECASE
)
TAIL_CHARS = 4000


def truth_of(text: str) -> bool | None:
    """Return what a text that is only yes, no, true or false says; None for any other."""
    return _TRUTHS.get(plain_words(text)) if len(text) <= 100 else None


def matches_boolean(slot: Slot, gold: str) -> bool:
    """Whether the slot says what the gold answer says; "yes" and "true" are the same, as "no" and "false".

    In words it is the first word of the slot that counts, unless the other one stands right
    behind it ("yes or no"), or else the only such word of its last line, unless it is denied.
    """
    wanted = truth_of(gold)
    return wanted is not None and _truth_said(slot) is wanted


def _truth_said(slot: Slot) -> bool | None:
    said = truth_of(slot.text) if slot.is_marked else truth_of(slot.line())
    if said is not None:
        return said
    plain = undecorated(slot.text[:TAIL_CHARS]).strip()
    both = _BOTH.match(plain)
    if both is not None and _TRUTHS[both[1].lower()] is not _TRUTHS[both[2].lower()]:
        return None
    first = _FIRST.match(plain)
    if first is not None:
        return _TRUTHS[first[1].lower()]
    last_line = undecorated(slot.text[-TAIL_CHARS:]).strip().rpartition("\n")[2]
    found = [(bool(m[1]), _TRUTHS[m[2].lower()]) for m in _ANY.finditer(last_line)]
    return found[0][1] if len(found) == 1 and not found[0][0] else None
