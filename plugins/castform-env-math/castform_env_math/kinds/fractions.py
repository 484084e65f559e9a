"""Sums, differences, products and quotients of fractions, answered in lowest terms."""

from __future__ import annotations

import operator
import random
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import gcd

from castform_env_math.problems import Kind, Numbers, Operation, Problem

_NAME = "fractions"
_ASKED = ("What is {}?", "Work out {}.", "Calculate {}.")


def _shown(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


_RESULTS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _write(sign: str, rng: random.Random, numbers: Numbers) -> Problem:
    a, b, c, d = numbers
    answer = _shown(_RESULTS[sign](Fraction(a, b), Fraction(c, d)))
    asked = f"({a}/{b}) / ({c}/{d})" if sign == "/" else f"{a}/{b} {sign} {c}/{d}"
    text = rng.choice(_ASKED).format(asked)
    return Problem(kind=_NAME, text=text, answer=answer, working=f"{asked} = {answer}")


_write_sum = partial(_write, "+")
_write_difference = partial(_write, "-")
_write_product = partial(_write, "*")
_write_quotient = partial(_write, "/")


def _proper(most: int) -> list[tuple[int, int]]:
    """Return numerator and denominator of every fraction between 0 and 1 that is in lowest terms."""
    return [(a, b) for b in range(2, most + 1) for a in range(1, b) if gcd(a, b) == 1]


def _like_sums() -> Sequence[Numbers]:
    """Same denominator, nothing to reduce, below one."""
    return [
        (a, b, c, b)
        for b in range(3, 20)
        for a in range(1, b)
        for c in range(1, b - a)
        if gcd(a + c, b) == gcd(a, b) == gcd(c, b) == 1
    ]


def _like_differences() -> Sequence[Numbers]:
    return [
        (a, b, c, b)
        for b in range(3, 20)
        for a in range(2, b)
        for c in range(1, a)
        if a - c != c and gcd(a - c, b) == gcd(a, b) == gcd(c, b) == 1
    ]


def _unlike_sums() -> Sequence[Numbers]:
    return [
        (a, b, c, d)
        for a, b in _proper(12)
        for c, d in _proper(12)
        if b != d and Fraction(a, b) + Fraction(c, d) < 1
    ]


def _unlike_differences() -> Sequence[Numbers]:
    """Above zero, and not just the other fraction again."""
    return [
        (a, b, c, d)
        for a, b in _proper(12)
        for c, d in _proper(12)
        if b != d and Fraction(a, b) > Fraction(c, d) and Fraction(a, b) != 2 * Fraction(c, d)
    ]


def _factors() -> Sequence[Numbers]:
    return [(a, b, c, d) for a, b in _proper(12) for c, d in _proper(12)]


FRACTIONS = Kind(
    name=_NAME,
    rule="as a fraction in lowest terms, such as 2/7",
    levels={
        1: (
            Operation(numbers=_like_sums, write=_write_sum, solved=((12, 41, 5, 41), (13, 43, 4, 43))),
            Operation(
                numbers=_like_differences, write=_write_difference, solved=((19, 41, 8, 41), (27, 43, 6, 43))
            ),
        ),
        2: (
            Operation(numbers=_unlike_sums, write=_write_sum, solved=((1, 20, 2, 15), (3, 14, 1, 21))),
            Operation(
                numbers=_unlike_differences, write=_write_difference, solved=((9, 20, 2, 15), (9, 14, 1, 21))
            ),
        ),
        3: (
            Operation(numbers=_factors, write=_write_product, solved=((9, 20, 5, 14), (4, 15, 7, 16))),
            Operation(numbers=_factors, write=_write_quotient, solved=((9, 20, 3, 14), (4, 15, 8, 21))),
        ),
    },
)
