"""Is the final answer of a text the right one: numbers by value, other answers by their words.

One rule, used everywhere: the last complete `\\boxed{...}` is the answer; a text that
opens a box and never closes one has none. Without boxes a number is looked for as the
last number of the text, and words as what stands after the last "answer:" or "answer is",
or else as the whole text.
"""

from __future__ import annotations

import re
from fractions import Fraction

from benchmax.rewards.deterministic.completion import extract_answer_block

BOX = "\\boxed{"
TAIL_CHARS = 4000
"""How far back from the end of a text a number is looked for."""
_BRACES = re.compile(r"\\boxed\{|[{}]")
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d{1,3})?"
    r"(?:\s*/\s*\d++)?(?![\w/]|\.\d|,\d)"
)
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(\d+)\s*\}")
_LATEX_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|emph|operatorname)\s*\{([^{}]*)\}")
_DECORATION = re.compile(r"[*`$]|\\[()\[\]]|\\[,;!: ]|\\left|\\right|(?<!\w)_+|_+(?!\w)")
_LEAD_IN = re.compile(r"\banswer\b\s*(?:is\b|[:=])\s*", re.IGNORECASE)


def match_answer(text: str, gold: object) -> float:
    """Return 1.0 when the text's final answer is the gold answer, else 0.0.

    An `<answer>` block, if there is one, is the text. Emphasis, code ticks, dollar signs,
    `\\text{}` and end punctuation are no part of an answer. Numbers are compared exactly
    by value: `007`, `7.0` and `14/2` are 7, `1,234` is 1234, `\\frac{3}{4}` is 0.75. A gold
    answer that is no number is compared in any case, white space counting as one blank.
    """
    wanted = plain_answer(str(gold))
    answer = final_answer(extract_answer_block(text))
    if not wanted or answer is None:
        return 0.0
    wanted_number = parse_number(wanted)
    if wanted_number is None:
        words = answer if not _LEAD_IN.search(answer) else _LEAD_IN.split(answer)[-1].split("\n")[0]
        return float(plain_answer(words) == wanted)
    return float(last_number(answer) == wanted_number)


def final_answer(text: str) -> str | None:
    """Return the content of the last complete box, the text when it has no box, None for an open one."""
    box = last_box(text)
    if box is not None:
        return box
    return None if BOX in text else text


def last_box(text: str) -> str | None:
    """Return the content of the complete `\\boxed{...}` that starts last, braces balanced; None without one."""
    open_braces: list[int | None] = []  # where a box's content starts; None for a plain brace
    last: tuple[int, int] | None = None
    for brace in _BRACES.finditer(text):
        if brace.group() == "}":
            start = open_braces.pop() if open_braces else None
            if start is not None and (last is None or start > last[0]):
                last = (start, brace.start())
        else:
            open_braces.append(brace.end() if brace.group() == BOX else None)
    return None if last is None else text[last[0] : last[1]]


def last_number(text: str) -> Fraction | None:
    """Return the value of the last number in the text, decoration aside; None when there is none."""
    plain = _undecorated(text[-TAIL_CHARS:])
    found = [
        number for match in _NUMBER.finditer(plain) if (number := parse_number(match.group())) is not None
    ]
    return found[-1] if found else None


def parse_number(text: str) -> Fraction | None:
    """Return the exact value of a text that is one number or fraction, None for anything else."""
    plain = _undecorated(text).strip().rstrip(".%").replace(",", "").replace(" ", "")
    if len(plain) > 1000:
        return None
    try:
        return Fraction(plain)
    except (ValueError, ZeroDivisionError):
        return None


def plain_answer(text: str) -> str:
    """Return an answer without decoration and end punctuation, in lower case, blanks joined."""
    return " ".join(_undecorated(text).split()).strip(" .,;:!?\"'").casefold()


def _undecorated(text: str) -> str:
    text = _LATEX_FRACTION.sub(r"\1/\2", text.replace("\u2212", "-"))
    return _DECORATION.sub("", _LATEX_WRAPPER.sub(r"\1", text))
