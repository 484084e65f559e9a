"""Answers of several items: lists and tuples in order, sets in any order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from benchmax.rewards.answers.plain import canonical

MAX_ITEMS = 100
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_LATEX = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\(?=[{}])|\$|\\[()\[\],;: ]|\*\*|`")
_LAST_WORD = re.compile(r",?\s+(?:and|und|et|y)\s+")
_BRACKETED = re.compile(r"\\?[(\[{][^()\[\]{}]*\\?[)\]}]")


def split_items(text: str, count: int | None = None) -> tuple[str, list[str]]:
    """Return the bracket that encloses a list ("" without one) and its items.

    Items are split at semicolons, else at commas outside brackets; "and" before the last
    one is a comma too. With `count`, commas without a blank behind them, as in `1,234`,
    separate only if the others do not give that many items.
    """
    plain = _LATEX.sub("", canonical(text)).strip().strip(".").strip()
    bracket = ""
    if len(plain) >= 2 and plain[0] in _PAIRS and plain[-1] in ")]}" and _closes_at_end(plain):
        bracket, plain = plain[0] + plain[-1], plain[1:-1]
    plain = _LAST_WORD.sub(", ", plain)
    if not plain.strip():
        return bracket, []
    for separator in (";", ", ", ","):
        items = _split(plain, separator)
        if len(items) > 1 and count in (None, len(items)):
            return bracket, items
    return bracket, _split(plain, ",") if count is None else [plain.strip()]


def find_bracketed(text: str) -> str | None:
    """Return the last bracketed text with a comma in it, None without one."""
    found = [match.group() for match in _BRACKETED.finditer(text) if "," in match.group()]
    return found[-1] if found else None


def matches_items(
    answer: tuple[str, Sequence[str]],
    gold: tuple[str, Sequence[str]],
    *,
    in_order: bool,
    is_same: Callable[[str, str], bool],
) -> bool:
    """Whether two lists have equal items. Two lists in different brackets differ; in a set repeats do not count."""
    (bracket, items), (gold_bracket, gold_items) = answer, gold
    if bracket and gold_bracket and bracket != gold_bracket:
        return False
    if not items or not gold_items or max(len(items), len(gold_items)) > MAX_ITEMS:
        return not items and not gold_items and bool(bracket)
    if in_order:
        return len(items) == len(gold_items) and all(map(is_same, items, gold_items))
    return all(any(is_same(item, other) for other in gold_items) for item in items) and all(
        any(is_same(item, other) for item in items) for other in gold_items
    )


def _closes_at_end(text: str) -> bool:
    """Whether the bracket that opens the text is closed by its last character and not before."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            return place == len(text) - 1
    return False


def _split(text: str, separator: str) -> list[str]:
    items, depth, start = [], 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and text.startswith(separator, place):
            items.append(text[start:place].strip())
            start = place + len(separator)
    return [*items, text[start:].strip()]
