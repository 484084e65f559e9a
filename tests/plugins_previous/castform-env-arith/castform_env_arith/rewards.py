"""The two reward components: is the answer in its tags, and is it the right number.

Only a reply with one pair of tags counts, so listing several answers, or repeating
the prompt with its tags, earns nothing.
"""

from __future__ import annotations

import re

from benchmax.rewards import read_tagged_answer

_NUMBER = re.compile(r"[+-]?\d{1,12}")


def format_reward(text: str) -> float:
    """Return 1 for one pair of tags with a whole number in it, 0.5 with something else in it, else 0."""
    answer = read_tagged_answer(text)
    if answer is None:
        return 0.0
    return 1.0 if _NUMBER.fullmatch(answer) else 0.5


def correct_reward(text: str, truth: int) -> float:
    """Return 1 when exactly the right whole number stands between the tags, else 0."""
    answer = read_tagged_answer(text)
    if answer is None or not _NUMBER.fullmatch(answer):
        return 0.0
    return 1.0 if int(answer) == truth else 0.0
