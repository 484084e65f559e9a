"""The two reward components: is the answer in its tags, and is it the right number.

Only a reply with one pair of tags counts, so listing several answers, or repeating
the prompt with its tags, earns nothing.
"""

from __future__ import annotations

import re

from benchmax.rewards import extract_answer_block

_NUMBER = re.compile(r"[+-]?\d{1,12}")


def read_answer(text: str) -> str | None:
    """Return what stands between the tags, stripped; None unless there is exactly one pair with content."""
    lowered = text.lower()
    if lowered.count("<answer>") != 1 or lowered.count("</answer>") != 1:
        return None
    return extract_answer_block(text, strict=True) or None


def format_reward(text: str) -> float:
    """Return 1 for one pair of tags with a whole number in it, 0.5 with something else in it, else 0."""
    answer = read_answer(text)
    if answer is None:
        return 0.0
    return 1.0 if _NUMBER.fullmatch(answer) else 0.5


def correct_reward(text: str, truth: int) -> float:
    """Return 1 when exactly the right whole number stands between the tags, else 0."""
    answer = read_answer(text)
    if answer is None or not _NUMBER.fullmatch(answer):
        return 0.0
    return 1.0 if int(answer) == truth else 0.0
