"""Multiple choice: a letter, alone or in front of its option, or the option when the options are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchmax.rewards.answers.plain import plain_words, undecorated
from benchmax.rewards.answers.reading import Slot

Options = Mapping[str, str] | Sequence[str]
"""Option text by letter, or the options in order, lettered from A."""

_INTRODUCTION = r"(?:the\s+)?(?:correct\s+|right\s+|best\s+)?(?:option|choice|answer)?\s*(?:is\s+)?:?\s*"
_WHOLE = re.compile(
    _INTRODUCTION
    + r"(?:\((?P<framed>[A-Z])\)|(?P<bare>[A-Z]))(?P<mark>\s*[).:,\]]|\s+[-–—]\s|$|(?<=\)))\s*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_STATED = re.compile(
    r"\(([A-Z])\)|\b(?:option|choice)\s+\(?([A-Z])\b|^\s*([A-Z])(?:[).:]|\s*$)", re.MULTILINE
)
_TAKEN_BACK = re.compile(
    r"(?:is|was)\s+(?:not|wrong|incorrect|false)\b|isn't\b|(?:(?:or|and|nor)\s+|[,/&]\s*)\(?[A-J](?:\)|\W*$)",
    re.IGNORECASE,
)
"""Behind a letter: it is wrong, or it is not the only one."""
_REASON = re.compile(r"(?<![.:]),?\s+(?:because|since|as)\b|,\s+not\b", re.IGNORECASE)
_DENIAL = re.compile(r"\bnot\b|\bisn't\b|\bnever\b", re.IGNORECASE)
TAIL_CHARS = 4000
MAX_CHOICE_CHARS = 10_000
"""No text that is longer is one option."""


def lettered(options: Options | None) -> dict[str, str]:
    """Return the option texts by capital letter; empty without options."""
    if options is None:
        return {}
    if isinstance(options, Mapping):
        return {str(letter).strip().upper(): str(text) for letter, text in options.items()}
    return {chr(ord("A") + index): str(text) for index, text in enumerate(options)}


def gold_letter(gold: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the right answer, which is a letter or the text of one option; None for neither."""
    return _letter_of(gold, options)


def matches_choice(slot: Slot, gold: str, options: Mapping[str, str]) -> bool:
    """Whether the slot names the right letter or, when options are given, says the right option.

    A letter with an option's text behind it must be that option's. In prose the letter has
    to be set apart, "(B)", "option B" or alone on its line, and only one may be named.
    """
    wanted = gold_letter(gold, options)
    return wanted is not None and chosen_letter(slot, options) == wanted


def chosen_letter(slot: Slot, options: Mapping[str, str]) -> str | None:
    """Return the letter that a slot names; "" when it names several or denies it, None when it names none."""
    line = slot.line()
    if slot.place == "lead-in":
        line = _REASON.split(line, maxsplit=1)[0]
    for text in (line, slot.sentence()):
        said = _letter_of(text, options)
        if said is not None:
            return said
    if slot.is_marked:
        return None
    return _only_letter(slot.line() if slot.place == "lead-in" else slot.text)


def _letter_of(text: str, options: Mapping[str, str]) -> str | None:
    """Return the letter that a text is; "" when letter and option differ, None when it is something else.

    A capital letter is the letter, even where it is also an option's text.
    """
    if len(text) > MAX_CHOICE_CHARS:
        return None
    plain = undecorated(text).strip(" \t\n.,;!")
    if plain in options:
        return plain
    words = plain_words(plain)
    letters = [letter for letter, option in options.items() if plain_words(option) == words]
    if letters:
        return letters[0] if len(letters) == 1 else None
    match = _WHOLE.fullmatch(plain)
    if match is None:
        return None
    letter = str(match["framed"] or match["bare"]).upper()
    if options and letter not in options:
        return None
    rest = plain_words(match["rest"])
    if not options:
        if match["mark"].strip() == ",":
            return None
        return "" if _TAKEN_BACK.match(rest) else letter
    return "" if rest and rest != plain_words(options[letter]) else letter


def _only_letter(text: str) -> str | None:
    plain = undecorated(text[-TAIL_CHARS:])
    letters: set[str] = {next(filter(None, match.groups())) for match in _STATED.finditer(plain)}
    if len(letters) != 1 or _DENIAL.search(plain):
        return None
    return letters.pop()
