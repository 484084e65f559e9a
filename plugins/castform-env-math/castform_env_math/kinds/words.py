"""Arithmetic in words: things that are bought, given away, packed and counted."""

from __future__ import annotations

import random
from collections.abc import Sequence

from castform_env_math.problems import Kind, Numbers, Operation, Problem

_NAME = "arithmetic-words"
_PEOPLE = ("baker", "farmer", "teacher", "gardener", "sailor", "painter", "librarian", "carpenter")
_THINGS = ("apples", "books", "coins", "pencils", "stamps", "marbles", "buttons", "candles")
_BOXES = ("boxes", "bags", "crates", "baskets")

# No number is 0 and no difference is half of what it starts from: repeating a number of the question is never right.


def _digit_pairs() -> Sequence[Numbers]:
    return [(a, b) for a in range(2, 10) for b in range(2, 10)]


def _small_differences() -> Sequence[Numbers]:
    return [(a, b) for a in range(3, 19) for b in range(2, min(a, 10)) if a - b < 10 and a != 2 * b]


def _two_digit_pairs() -> Sequence[Numbers]:
    return [(a, b) for a in range(10, 90) for b in range(10, 90)]


def _two_digit_differences() -> Sequence[Numbers]:
    return [(a, b) for a in range(20, 100) for b in range(10, a) if a != 2 * b]


def _products() -> Sequence[Numbers]:
    return [(a, b) for a in range(2, 13) for b in range(2, 13)]


def _purchases() -> Sequence[Numbers]:
    return [
        (count, price, money)
        for count in range(2, 10)
        for price in range(2, 13)
        for money in range(count * price + 1, 121, 4)
        if money - count * price not in (count, price)
    ]


def _packings() -> Sequence[Numbers]:
    return [(a, b, c) for a in range(2, 13) for b in range(3, 13) for c in range(2, 40, 3) if c < a * b]


def _write_sum(rng: random.Random, numbers: Numbers) -> Problem:
    a, b = numbers
    who, what = rng.choice(_PEOPLE), rng.choice(_THINGS)
    text = rng.choice(
        (
            f"A {who} has {a} {what} and gets {b} more. How many {what} does the {who} have now?",
            f"There are {a} {what} on a table and {b} {what} on a shelf. How many {what} are there together?",
            f"A {who} finds {a} {what} in the morning and {b} in the evening. How many {what} is that?",
        )
    )
    return Problem(kind=_NAME, text=text, answer=str(a + b), working=f"{a} + {b} = {a + b}")


def _write_difference(rng: random.Random, numbers: Numbers) -> Problem:
    a, b = numbers
    who, what = rng.choice(_PEOPLE), rng.choice(_THINGS)
    text = rng.choice(
        (
            f"A {who} has {a} {what} and gives {b} away. How many {what} are left?",
            f"Of {a} {what} in a shop, {b} are sold. How many {what} are left?",
            f"A {who} needs {a} {what} and has {b}. How many {what} are missing?",
        )
    )
    return Problem(kind=_NAME, text=text, answer=str(a - b), working=f"{a} - {b} = {a - b}")


def _write_product(rng: random.Random, numbers: Numbers) -> Problem:
    a, b = numbers
    who, what, box = rng.choice(_PEOPLE), rng.choice(_THINGS), rng.choice(_BOXES)
    text = rng.choice(
        (
            f"A {who} fills {a} {box} with {b} {what} each. How many {what} is that?",
            f"There are {a} {box}, and {b} {what} in each. How many {what} are there?",
        )
    )
    return Problem(kind=_NAME, text=text, answer=str(a * b), working=f"{a} * {b} = {a * b}")


def _write_purchase(rng: random.Random, numbers: Numbers) -> Problem:
    count, price, money = numbers
    who, what = rng.choice(_PEOPLE), rng.choice(_THINGS)
    text = (
        f"A {who} has {money} dollars and buys {count} {what} for {price} dollars each. "
        "How many dollars are left?"
    )
    spent = count * price
    working = f"{count} * {price} = {spent}, {money} - {spent} = {money - spent}"
    return Problem(kind=_NAME, text=text, answer=str(money - spent), working=working)


def _write_packing(rng: random.Random, numbers: Numbers) -> Problem:
    a, b, c = numbers
    who, what, box = rng.choice(_PEOPLE), rng.choice(_THINGS), rng.choice(_BOXES)
    text = (
        f"A {who} packs {a} {box} with {b} {what} each and has {c} {what} left over. "
        f"How many {what} does the {who} have?"
    )
    packed = a * b
    working = f"{a} * {b} = {packed}, {packed} + {c} = {packed + c}"
    return Problem(kind=_NAME, text=text, answer=str(packed + c), working=working)


_SUM = Operation(numbers=_digit_pairs, write=_write_sum, solved=((12, 3), (11, 5)))
_DIFFERENCE = Operation(numbers=_small_differences, write=_write_difference, solved=((24, 11), (27, 12)))
_BIG_SUM = Operation(numbers=_two_digit_pairs, write=_write_sum, solved=((120, 34), (115, 27)))
_BIG_DIFFERENCE = Operation(
    numbers=_two_digit_differences, write=_write_difference, solved=((160, 25), (178, 33))
)
_PRODUCT = Operation(numbers=_products, write=_write_product, solved=((3, 20), (5, 30)))
_PURCHASE = Operation(numbers=_purchases, write=_write_purchase, solved=((3, 20, 200), (2, 25, 180)))
_PACKING = Operation(numbers=_packings, write=_write_packing, solved=((3, 20, 4), (2, 25, 7)))

WORDS = Kind(
    name=_NAME,
    rule="as a number",
    levels={
        1: (_SUM, _DIFFERENCE),
        2: (_BIG_SUM, _BIG_DIFFERENCE, _PRODUCT),
        3: (_PURCHASE, _PACKING),
    },
)
