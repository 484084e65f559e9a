"""Which part of a text is its answer. One rule, for every kind of answer:

1. What stands inside `<think>` does not count, and after a `<think>` that is never closed nothing does.
2. A marked place outranks prose: the last complete `<answer>` block, in it or without one the
   last complete `\\boxed{}`. What is said outside a marked place does not change it. A text that
   opens one and never completes any was cut off and has no answer.
3. Otherwise the answer follows the last lead-in ("answer is", "answer:", "####"). Taking something
   back ("no, wait", "scratch that") is a lead-in too, so what it takes back is never read.
4. Otherwise the whole text is looked at, and each kind of answer says where: see its module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from benchmax.rewards.answers.plain import undecorated

BOX = "\\boxed{"
_BRACES = re.compile(r"\\boxed\{|[{}]")
_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE | re.ASCII)
_ANSWER_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE | re.ASCII)
_LEAD_IN = re.compile(
    r"\banswer\b(?:\s+to\s+(?:the|this|your)\s+question)?\s*"
    r"(?:(?:is|was|are|(?:would|should|must|will)\s+be|comes\s+to)\b[^\S\n]*:?|[:=]|(?=\n))"
    r"|(?m:^)[^\S\n]*####"
    r"|\bno,?\s+wait\b|\bwait,?\s+no\b|\bscratch\s+that\b|\bcorrection\s*:|\bmy\s+mistake\b"
    r"|\bI\s+(?:was|am)\s+wrong\b|\bI\s+made\s+a\s+mistake\b|\bon\s+second\s+thought\b|\bI\s+take\s+(?:that|it)\s+back\b"
    r"|\bth(?:at|is)(?:'s|\s+is|\s+was)\s+(?:wrong|incorrect|not\s+right)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")

Place = Literal["block", "box", "lead-in", "prose"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """Where the answer of a text stands."""

    text: str
    place: Place

    @property
    def is_marked(self) -> bool:
        """Whether the author of the text set the answer apart, so that nothing else stands in the slot."""
        return self.place in ("block", "box")

    def line(self) -> str:
        """Return the slot's text, of a lead-in the first line that is not blank."""
        return self.text.strip().split("\n", 1)[0].strip() if self.place == "lead-in" else self.text.strip()

    def sentence(self) -> str:
        """Return the slot's text, of a lead-in its first sentence."""
        if self.place != "lead-in":
            return self.text.strip()
        return _SENTENCE_END.split(self.text.strip(), maxsplit=1)[0].strip()


def extract_answer(text: str) -> str | None:
    """Return what would be compared as the answer of a text, for messages; None when there is none."""
    slot = read_slot(text)
    return None if slot is None else slot.line() or None


def read_slot(text: str) -> Slot | None:
    """Return where the answer of a text stands, by the rule above; None when there is no answer."""
    shown = without_thinking(text)
    block = last_block(shown)
    if block is None and any(not tag.group(1) for tag in _ANSWER_TAG.finditer(shown)):
        return None
    inside = shown if block is None else block
    box = last_box(inside)
    if box is not None:
        return Slot(text=box, place="box")
    if BOX in inside:
        return None
    plain = undecorated(inside)
    end_of_lead_in = max((found.end() for found in _LEAD_IN.finditer(plain)), default=None)
    if end_of_lead_in is not None:
        return Slot(text=plain[end_of_lead_in:].lstrip(" \t:,;!"), place="lead-in")
    return Slot(text=inside, place="prose" if block is None else "block")


def without_thinking(text: str) -> str:
    """Return what stands outside thinking blocks.

    A closing tag without an opening one ends a block that began with the text (templates
    write the opening tag into the prompt); an opening one without a closing one goes on to the end.
    """
    kept: list[str] = []
    start, depth = 0, 0
    for tag in _THINK_TAG.finditer(text):
        if tag.group(1):
            if depth == 0:
                kept.clear()
            depth = 0
            start = tag.end()
        elif depth == 0:
            kept.append(text[start : tag.start()])
            depth = 1
    if depth == 0:
        kept.append(text[start:])
    return "".join(kept)


def last_block(text: str) -> str | None:
    """Return the inside of the last complete `<answer>...</answer>`, stripped; None without one."""
    start: int | None = None
    last: tuple[int, int] | None = None
    for tag in _ANSWER_TAG.finditer(text):
        if not tag.group(1):
            start = tag.end()
        elif start is not None:
            last, start = (start, tag.start()), None
    return None if last is None else text[last[0] : last[1]].strip()


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


def read_tagged_answer(text: str) -> str | None:
    """Return what stands between the answer tags, stripped; None unless there is exactly one pair with content.

    For rewards that pay keeping to the form: listing several answers, or repeating the
    prompt with its tags, is no answer. Tags in any case.
    """
    tags = list(_ANSWER_TAG.finditer(text))
    if [tag.group(1) for tag in tags] != ["", "/"]:
        return None
    return text[tags[0].end() : tags[1].start()].strip() or None
