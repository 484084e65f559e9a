"""Percentages with whole results: of a number, rises and falls, and back again."""

from __future__ import annotations

import random
from collections.abc import Sequence

from castform_env_math.problems import Kind, Numbers, Operation, Problem

_NAME = "percent"
_PRICED = ("coat", "lamp", "bicycle", "ticket", "chair", "clock", "tent", "guitar")


def _problem(text: str, answer: int, working: str) -> Problem:
    return Problem(kind=_NAME, text=text, answer=str(answer), working=f"{working} = {answer}")


# Nothing whose result is one of the numbers shown: 50 % of 100 is 50, and repeating it would be right.


def _parts(percents: Sequence[int], most: int) -> Sequence[Numbers]:
    return [
        (p, n)
        for p in percents
        for n in range(2, most + 1)
        if p * n % 100 == 0 and p * n // 100 not in (p, n)
    ]


def _easy_parts() -> Sequence[Numbers]:
    return _parts((10, 50), 300)


def _all_parts() -> Sequence[Numbers]:
    return _parts([p for p in range(5, 100, 5) if p not in (10, 50)], 400)


def _write_part(rng: random.Random, numbers: Numbers) -> Problem:
    p, n = numbers
    text = rng.choice((f"What is {p}% of {n}?", f"How much is {p} percent of {n}?", f"Find {p}% of {n}."))
    return _problem(text, p * n // 100, f"{p} * {n} / 100")


def _changes() -> Sequence[Numbers]:
    return [
        (p, n)
        for p in range(5, 100, 5)
        for n in range(20, 401, 10)
        if p * n % 100 == 0 and n + p * n // 100 != p and n - p * n // 100 != p
    ]


def _write_rise(rng: random.Random, numbers: Numbers) -> Problem:
    p, n = numbers
    what = rng.choice(_PRICED)
    text = f"A {what} costs {n} dollars. The price rises by {p}%. How many dollars does the {what} cost now?"
    part = p * n // 100
    return _problem(text, n + part, f"{p} * {n} / 100 = {part}, {n} + {part}")


def _write_fall(rng: random.Random, numbers: Numbers) -> Problem:
    p, n = numbers
    what = rng.choice(_PRICED)
    text = f"A {what} costs {n} dollars. The price falls by {p}%. How many dollars does the {what} cost now?"
    part = p * n // 100
    return _problem(text, n - part, f"{p} * {n} / 100 = {part}, {n} - {part}")


def _wholes() -> Sequence[Numbers]:
    return [
        (p, p * whole // 100)
        for p in range(5, 100, 5)
        for whole in range(20, 401, 10)
        if p * whole % 100 == 0 and whole != p
    ]


def _write_whole(rng: random.Random, numbers: Numbers) -> Problem:
    p, part = numbers
    text = rng.choice(
        (f"{part} is {p}% of which number?", f"{p}% of a number is {part}. What is the number?")
    )
    return _problem(text, part * 100 // p, f"{part} * 100 / {p}")


PERCENT = Kind(
    name=_NAME,
    rule="as a number",
    levels={
        1: (Operation(numbers=_easy_parts, write=_write_part, solved=((10, 730), (50, 910))),),
        2: (Operation(numbers=_all_parts, write=_write_part, solved=((20, 735), (25, 904))),),
        3: (
            Operation(numbers=_changes, write=_write_rise, solved=((20, 735), (10, 910))),
            Operation(numbers=_changes, write=_write_fall, solved=((20, 735), (10, 910))),
            Operation(numbers=_wholes, write=_write_whole, solved=((20, 147), (10, 91))),
        ),
    },
)
