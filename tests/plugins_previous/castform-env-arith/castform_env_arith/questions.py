"""Which questions a grade holds, and on which side of the split each one lies.

Nothing is read and nothing is drawn from a global generator: a grade is a list of
operations over operand ranges, and a hash of the operand pair decides its split.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "eval"]
Symbol = Literal["+", "-", "*"]

HELD_OUT_SHARE = 0.4
"""Share of the operand pairs that only evaluation sees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One operation over all pairs of operands in [low, high]."""

    symbol: Symbol
    low: int
    high: int
    largest_answer: int | None = None
    """Pairs with a larger answer are left out. None: no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    kind: Kind
    first: int
    second: int

    @property
    def id(self) -> str:
        return f"{self.first}{self.kind.symbol}{self.second}"

    @property
    def text(self) -> str:
        return f"What is {self.first} {self.kind.symbol} {self.second}?"

    @property
    def answer(self) -> int:
        if self.kind.symbol == "+":
            return self.first + self.second
        if self.kind.symbol == "-":
            return self.first - self.second
        return self.first * self.second


# No operand is 0: where it is, repeating the other one is right, and a small model learns just that.
DIGIT_SUMS = Kind(symbol="+", low=1, high=9)
SMALL_SUMS = Kind(symbol="+", low=1, high=23, largest_answer=24)
SMALL_DIFFERENCES = Kind(symbol="-", low=1, high=24)
TWO_DIGIT_SUMS = Kind(symbol="+", low=10, high=99)
TWO_DIGIT_DIFFERENCES = Kind(symbol="-", low=10, high=99)
SMALL_PRODUCTS = Kind(symbol="*", low=2, high=20)
TWO_DIGIT_PRODUCTS = Kind(symbol="*", low=10, high=99)

MIXED_LEVELS: dict[int, tuple[Kind, ...]] = {
    1: (SMALL_SUMS, SMALL_DIFFERENCES),
    2: (SMALL_SUMS, SMALL_DIFFERENCES, TWO_DIGIT_SUMS),
    3: (TWO_DIGIT_SUMS, TWO_DIGIT_DIFFERENCES),
    4: (TWO_DIGIT_SUMS, TWO_DIGIT_DIFFERENCES, SMALL_PRODUCTS),
    5: (TWO_DIGIT_SUMS, TWO_DIGIT_DIFFERENCES, TWO_DIGIT_PRODUCTS),
}


def split_of(first: int, second: int) -> Split:
    """Return the split of an operand pair: the same for both orders and for every operation."""
    low, high = sorted((first, second))
    digest = hashlib.sha256(f"castform-env-arith:{low}:{high}".encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") < HELD_OUT_SHARE * 2**64 else "train"


def list_questions(kind: Kind, split: Split) -> list[Question]:
    """Return every question of a kind in a split; a difference never goes below zero."""
    operands = range(kind.low, kind.high + 1)
    questions = [
        Question(kind=kind, first=first, second=second)
        for first in operands
        for second in operands
        if split_of(first, second) == split
    ]
    most = float("inf") if kind.largest_answer is None else kind.largest_answer
    return [question for question in questions if 0 <= question.answer <= most]


def draw_questions(kinds: Sequence[Kind], split: Split, *, count: int, seed: int) -> list[Question]:
    """Return up to `count` different questions, the kinds in turn, in an order that `seed` decides.

    A kind that runs out leaves its turns to the others; fewer than `count` come back
    only when all of them have run out.
    """
    piles = []
    for kind in kinds:
        pile = list_questions(kind, split)
        random.Random(f"{seed}:{split}:{kind}").shuffle(pile)
        piles.append(pile)
    drawn: dict[str, Question] = {}
    while len(drawn) < count and any(piles):
        for pile in piles:
            if pile:
                question = pile.pop()
                drawn.setdefault(question.id, question)
    return list(drawn.values())[:count]


def solved_examples(question: Question, count: int) -> list[Question]:
    """Return solved questions to show before `question`.

    Their first operand lies above the range of its kind, so they are never asked there,
    and none has the answer of `question`, so a reply that repeats the prompt is never right.
    """
    kind = question.kind
    shown: list[Question] = []
    step = 1
    while len(shown) < count:
        solved = Question(kind=kind, first=kind.high + 7 + 10 * (step - 1), second=kind.low + 2 + step)
        if solved.answer != question.answer:
            shown.append(solved)
        step += 1
    return shown
