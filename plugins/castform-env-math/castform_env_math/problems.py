"""What a problem is, which side of the split it lies on, and how problems are drawn.

Nothing is read and nothing is drawn from a global generator. A kind lists the numbers it can
ask about; a hash of the numbers that a question shows decides its split, so held-out numbers
never occur together in training, whatever the words around them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "eval"]
Level = Literal[1, 2, 3]
Numbers = tuple[int, ...]

HELD_OUT_SHARE = 0.4
"""Share of the number tuples that only evaluation sees."""
WORDINGS = 8
"""Most questions about the same numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One question with its one right answer."""

    kind: str
    text: str
    answer: str
    """A whole number, or a fraction in lowest terms such as 3/4."""
    working: str
    """One line that leads to the answer, shown with solved examples."""

    @property
    def id(self) -> str:
        digest = hashlib.sha256(f"{self.kind}:{self.text}".encode()).hexdigest()
        return f"{self.kind}-{digest[:16]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One thing to ask about a tuple of numbers."""

    numbers: Callable[[], Sequence[Numbers]]
    """Every tuple that may be asked, always in the same order."""
    write: Callable[[random.Random, Numbers], Problem]
    """Puts the numbers into words. The text shows exactly these numbers, and no others."""
    solved: tuple[Numbers, ...]
    """Tuples for solved examples, with answers of their own; none of them is ever asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A family of problems in three levels."""

    name: str
    rule: str
    """What the system prompt says about the form of the answer."""
    levels: Mapping[int, tuple[Operation, ...]]


def split_of(kind: str, numbers: Numbers) -> Split:
    """Return the split of a number tuple, the same for every order of it, level and wording."""
    key = ":".join(str(number) for number in sorted(numbers))
    digest = hashlib.sha256(f"castform-env-math:{kind}:{key}".encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") < HELD_OUT_SHARE * 2**64 else "train"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A problem and the solved ones to show before it."""

    problem: Problem
    rule: str
    solved: tuple[Problem, ...]


def draw_problems(
    kinds: Sequence[Kind], split: Split, *, level: int, count: int, seed: int, solved: int
) -> list[Drawn]:
    """Return up to `count` different problems, kinds and operations in turn, in an order that `seed` decides.

    Fewer come back only when every tuple has been asked in as many wordings as there may be.
    A larger `count` continues the same list. `solved` is how many solved examples each one shows.
    """
    piles = [_Pile(kind, operation, split, seed) for kind in kinds for operation in kind.levels[level]]
    piles = _interleave([[pile for pile in piles if pile.kind is kind] for kind in kinds])
    drawn: dict[str, Drawn] = {}
    while len(drawn) < count and piles:
        for pile in list(piles):
            problem = pile.pop()
            if problem is None:
                piles.remove(pile)
            elif problem.id not in drawn:
                drawn[problem.id] = Drawn(
                    problem=problem,
                    rule=pile.kind.rule,
                    solved=_solved_examples(pile.operation, problem, solved),
                )
    return list(drawn.values())[:count]


class _Pile:
    """The questions of one operation, numbers first, then the same numbers in other words."""

    def __init__(self, kind: Kind, operation: Operation, split: Split, seed: int) -> None:
        self.kind = kind
        self.operation = operation
        numbers = [each for each in operation.numbers() if split_of(kind.name, each) == split]
        place = f"{seed}:{split}:{kind.name}:{operation.solved}"
        self._rng = random.Random(place)
        self._rng.shuffle(numbers)
        self._numbers = numbers
        self._next = 0

    def pop(self) -> Problem | None:
        if self._next >= len(self._numbers) * WORDINGS:
            return None
        numbers = self._numbers[self._next % len(self._numbers)]
        self._next += 1
        return self.operation.write(self._rng, numbers)


def _interleave(groups: Sequence[Sequence[_Pile]]) -> list[_Pile]:
    """Return all piles, first one of each kind, so that the kinds take turns from the start."""
    longest = max((len(group) for group in groups), default=0)
    return [group[index] for index in range(longest) for group in groups if index < len(group)]


def _solved_examples(operation: Operation, problem: Problem, count: int) -> tuple[Problem, ...]:
    """Return solved problems of the same operation, none with the answer of `problem`."""
    shown = [operation.write(random.Random(index), numbers) for index, numbers in enumerate(operation.solved)]
    return tuple(each for each in shown if each.answer != problem.answer)[:count]
