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
    + r"(?:\((?P<framed>[A-Z])\)|(?P<bare>[A-Z]))(?P<mark>\s*[).:\]]|\s+[-–—]\s|$|(?<=\)))\s*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_STATED = re.compile(
    r"\(([A-Z])\)|\b(?:option|choice)\s+\(?([A-Z])\b|^\s*([A-Z])(?:[).:]|\s*$)", re.MULTILINE
)
_DENIAL = re.compile(r"\bnot\b|\bisn't\b|\bnever\b", re.IGNORECASE)
TAIL_CHARS = 4000


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
    if wanted is None:
        return False
    said = _letter_of(slot.line(), options)
    if said is None:
        said = _letter_of(slot.sentence(), options)
    if said is None and not slot.is_marked:
        said = _only_letter(slot.line() if slot.place == "lead-in" else slot.text)
    return said == wanted


def _letter_of(text: str, options: Mapping[str, str]) -> str | None:
    """Return the letter that a text is; "" when letter and option differ, None when it is something else.

    A capital letter is the letter, even where it is also an option's text.
    """
    plain = undecorated(text).strip(" \t\n.,;!")
    if plain in options:
        return plain
    letters = [letter for letter, option in options.items() if plain_words(option) == plain_words(plain)]
    if letters:
        return letters[0] if len(letters) == 1 else None
    match = _WHOLE.fullmatch(plain)
    if match is None:
        return None
    letter = str(match["framed"] or match["bare"]).upper()
    if options and letter not in options:
        return None
    rest = plain_words(match["rest"])
    contradicted = options and rest and rest != plain_words(options[letter])
    return "" if contradicted else letter


def _only_letter(text: str) -> str | None:
    plain = undecorated(text[-TAIL_CHARS:])
    letters: set[str] = {next(filter(None, match.groups())) for match in _STATED.finditer(plain)}
    if len(letters) != 1 or _DENIAL.search(plain):
        return None
    return letters.pop()
