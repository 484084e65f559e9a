"""Two components: is the answer in its place, and is it the right one.

Whether two answers are equal says `benchmax.rewards`, with math-verify for LaTeX. What is added
here: an answer that is a number has to be worked out. "3 + 4" is equal to 7, and so is "14/2",
but paying for them would pay for copying the question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import gcd
from typing import Any, Literal

from benchmax.rewards import (
    Completion,
    extract_answer,
    extract_completion_text,
    is_answer,
    match_answer,
    read_tagged_answer,
)
from benchmax.rewards.answers.expressions import is_wordless
from benchmax.rewards.answers.matching import infer_kind
from benchmax.rewards.answers.plain import canonical
from benchmax.rewards.answers.reading import BOX, last_box, without_thinking

Style = Literal["tags", "boxed"]

MAX_ANSWER_CHARS = 400
_FRACTION = re.compile(
    r"\\[dt]?frac\s*(?:\{\s*(\d{1,30})\s*\}\s*\{\s*(\d{1,30})\s*\}|\s?(\d)\s*(\d))|(\d{1,30})\s*/\s*(\d{1,30})"
)
_CALCULATION = re.compile(
    r"[\d.)}\]$]\s*(?:[-+*/^×·÷:⋅−–!]|\\(?:times|cdot|div|ast|over)(?![A-Za-z]))"
    r"|[-+]\s*[-+]|[√|]|[\d)]\s*\(|\)\s*\d"
    r"|\\(?!text|math|circ|degree|quad|displaystyle)[A-Za-z]|sqrt|log|ln\b|exp|max|min|gcd|lcm|mod"
)
"""A sign of arithmetic behind a number, or one that never stands in a plain number."""
_NUMERIC_RUN = re.compile(r"[^A-Za-z\n]*\d[^A-Za-z\n]*")


def wrap(answer: str, style: Style) -> str:
    """Return an answer in its place."""
    return f"<answer>{answer}</answer>" if style == "tags" else f"\\boxed{{{answer}}}"


def read_placed_answer(text: str, style: Style) -> str | None:
    """Return the answer in its place outside of thinking; None unless there is exactly one, with content."""
    shown = without_thinking(text)
    if style == "tags":
        answer = read_tagged_answer(shown)
        if answer is None or not answer.startswith(BOX):
            return answer
        shown = answer  # a box in the tags: what it holds
    box = last_box(shown) if shown.count(BOX) == 1 else None
    return (box or "").strip() or None


def format_reward(text: str, style: Style) -> float:
    """Return 1 for a reply with exactly one answer in its place, else 0."""
    return float(read_placed_answer(text, style) is not None)


def correct_reward(text: str, truth: str, style: Style) -> float:
    """Return 1 when the one answer in its place is right and worked out, else 0.

    May take seconds of processor time, in a process of its own, when both are LaTeX.
    """
    answer = read_placed_answer(text, style)
    if answer is None or len(answer) > MAX_ANSWER_CHARS or not is_worked_out(answer, truth):
        return 0.0
    return float(is_answer(answer, truth))


def is_worked_out(answer: str, truth: str) -> bool:
    """Whether an answer to a question about a number is one, with nothing left to calculate.

    Fractions have to be in lowest terms and below the line more than 1. Of "x = 3 + 4 = 7" the
    last part counts, of a sentence what stands around its last number. True when the right
    answer is no number, or itself is written with a sign of arithmetic (2 \\times 10^8).
    """
    if infer_kind(truth) != "number" or _has_calculation(truth):
        return True
    stated = answer.rpartition("=")[2]
    if not is_wordless(stated):
        stated = (_NUMERIC_RUN.findall(stated) or [""])[-1]
    return not _has_calculation(stated)


def _has_calculation(text: str) -> bool:
    text = canonical(text)
    for match in _FRACTION.finditer(text):
        above, below = (int(group) for group in match.groups() if group is not None)
        if below < 2 or gcd(above, below) != 1:
            return True
    plain = _FRACTION.sub(" 0 ", text)
    return bool(_CALCULATION.search(plain))


def correct(completion: Completion, ground_truth: object, **_: Any) -> float:
    """Return 1 when the final answer of a completion is the ground truth, wherever it stands, else 0.

    For composed environments: the answer is what `benchmax.rewards.match_answer` reads, in
    tags, in a box, after "the answer is" or at the end. Worked solutions as ground truth are
    read as `match_answer` reads them.
    """
    text = extract_completion_text(completion)
    answer = extract_answer(text)
    if answer is None or not is_worked_out(answer, str(ground_truth)):
        return 0.0
    return match_answer(text, ground_truth)


def tagged(completion: Completion, **_: Any) -> float:
    """Return 1 when a completion has exactly one answer between <answer> tags, else 0."""
    return format_reward(extract_completion_text(completion), "tags")


def boxed(completion: Completion, **_: Any) -> float:
    """Return 1 when a completion has exactly one answer in a LaTeX box, else 0."""
    return format_reward(extract_completion_text(completion), "boxed")


def score_reply(text: str, example: Mapping[str, Any], style: Style) -> dict[str, float]:
    """Return both components of a reply to an example."""
    return {
        "format": format_reward(text, style),
        "correct": correct_reward(text, str(example["ground_truth"]), style),
    }
