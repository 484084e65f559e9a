"""Linear equations with one unknown and a whole solution."""

from __future__ import annotations

import random
from collections.abc import Sequence

from castform_env_math.problems import Kind, Numbers, Operation, Problem

_NAME = "equations"
_ASKED = ("Solve for x: {}", "What is x if {}?", "Find x. {}")


def _problem(rng: random.Random, equation: str, x: int, working: str) -> Problem:
    text = rng.choice(_ASKED).format(equation)
    return Problem(kind=_NAME, text=text, answer=str(x), working=f"{working} = {x}")


# The solution is none of the numbers that the equation shows, so repeating one of them is never right.


def _sums() -> Sequence[Numbers]:
    return [(a, x + a) for a in range(1, 13) for x in range(1, 13) if x != a]


def _write_sum(rng: random.Random, numbers: Numbers) -> Problem:
    a, b = numbers
    equation = rng.choice((f"x + {a} = {b}", f"{a} + x = {b}", f"{b} = x + {a}"))
    return _problem(rng, equation, b - a, f"x = {b} - {a}")


def _differences() -> Sequence[Numbers]:
    return [(a, b) for a in range(1, 13) for b in range(1, 13)]


def _write_difference(rng: random.Random, numbers: Numbers) -> Problem:
    a, b = numbers
    equation = rng.choice((f"x - {a} = {b}", f"{b} = x - {a}"))
    return _problem(rng, equation, a + b, f"x = {b} + {a}")


def _products() -> Sequence[Numbers]:
    return [(a, a * x) for a in range(2, 13) for x in range(2, 31) if x != a]


def _write_product(rng: random.Random, numbers: Numbers) -> Problem:
    a, b = numbers
    equation = rng.choice((f"{a}x = {b}", f"{b} = {a}x"))
    return _problem(rng, equation, b // a, f"x = {b} / {a}")


def _linear() -> Sequence[Numbers]:
    return [
        (a, b, a * x + b)
        for a in range(2, 10)
        for b in range(1, 20)
        for x in range(2, 16)
        if x not in (a, b, a * x + b)
    ]


def _write_linear(rng: random.Random, numbers: Numbers) -> Problem:
    a, b, c = numbers
    equation = rng.choice((f"{a}x + {b} = {c}", f"{b} + {a}x = {c}", f"{c} = {a}x + {b}"))
    return _problem(rng, equation, (c - b) // a, f"{a}x = {c - b}, x")


def _two_sided() -> Sequence[Numbers]:
    """a x + b = c x + d with a > c + 1 and all four above zero; the solution may be below."""
    return [
        (a, b, c, (a - c) * x + b)
        for a in range(4, 10)
        for c in range(2, a - 1)
        for b in range(1, 40, 3)
        for x in range(-9, 10)
        if x and (a - c) * x + b > 0 and x not in (a, b, c, (a - c) * x + b)
    ]


def _write_two_sided(rng: random.Random, numbers: Numbers) -> Problem:
    a, b, c, d = numbers
    left, right = f"{a}x + {b}", f"{c}x + {d}"
    equation = rng.choice((f"{left} = {right}", f"{right} = {left}"))
    return _problem(rng, equation, (d - b) // (a - c), f"{a - c}x = {d - b}, x")


EQUATIONS = Kind(
    name=_NAME,
    rule="as the number that x is",
    levels={
        1: (
            Operation(numbers=_sums, write=_write_sum, solved=((20, 45), (30, 57))),
            Operation(numbers=_differences, write=_write_difference, solved=((20, 25), (30, 27))),
        ),
        2: (
            Operation(numbers=_products, write=_write_product, solved=((20, 1000), (15, 600))),
            Operation(numbers=_linear, write=_write_linear, solved=((11, 2, 442), (12, 5, 617))),
        ),
        3: (
            Operation(
                numbers=_two_sided, write=_write_two_sided, solved=((15, 50, 12, 110), (14, 41, 12, 1))
            ),
        ),
    },
)
