"""Nim: take stones in turn; who takes the last one wins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from operator import xor

from castform_env_games.game import Game, IllegalMoveError, Setup, Step

SKILL = {1: 0.3, 2: 0.5, 3: 0.8}
"""Level to the share of positions in which the opponent plays its best move; else any."""
PILES = range(5, 31)
MOST_TAKEN = range(2, 6)
HEAP_PAIRS = range(1, 13)
HEAP_TRIPLES = range(1, 8)
_ONE = re.compile(r"[0-9]{1,3}")
_TWO = re.compile(r"([0-9]{1,3})[ ,]+([0-9]{1,3})")

Move = tuple[int, int]
"""(heap from 0, stones)."""


class Nim(Game):
    """Level 1 has one heap and a limit on what may be taken, the others two or three heaps and none.

    Every game is one that the first player, the model, can win against any opponent.
    """

    name = "nim"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.heaps = list(setup["heaps"])
        self.most: int | None = setup["most"]
        self.skill: float = setup["skill"]
        self.move_limit = (sum(self.heaps) + 1) // 2

    @classmethod
    def list_setups(cls, level: int) -> Sequence[Setup]:
        skill = SKILL[level]
        if level == 1:
            games: list[tuple[list[int], int | None]] = [
                ([pile], most) for pile in PILES for most in MOST_TAKEN
            ]
        else:
            sizes = product(HEAP_PAIRS, repeat=2) if level == 2 else product(HEAP_TRIPLES, repeat=3)
            games = [(list(heaps), None) for heaps in sizes]
        return [
            {"heaps": heaps, "most": most, "skill": skill}
            for heaps, most in games
            if _is_won(heaps, most) and sum(heaps) > 3
        ]

    @classmethod
    def find_key(cls, setup: Setup) -> str:
        return f"{sorted(setup['heaps'])} {setup['most']}"

    @classmethod
    def demo(cls, level: int) -> tuple[Setup, Sequence[str]]:
        if level == 1:
            return {"heaps": [4], "most": 2, "skill": 1.0}, ["1", "2"]
        heaps = [2, 1] if level == 2 else [2, 0, 1]
        return {"heaps": heaps, "most": None, "skill": 1.0}, ["1 1", "1 1" if level == 2 else "3 1"]

    def opening(self) -> str:
        rule = (
            f"from 1 to {self.most} of them" if self.most is not None else "as many as you like from one heap"
        )
        start = f"There are {self._show()}. In turn we take {rule}, at least one; who takes the last stone wins. You begin. "
        return start + self._ask()

    def move(self, text: str) -> Step:
        heap, stones = self._read(text)
        self.heaps[heap] -= stones
        if not any(self.heaps):
            return Step(text="You took the last stone. You win.", result="win")
        heap, stones = self._answer()
        self.heaps[heap] -= stones
        where = "" if len(self.heaps) == 1 else f" from heap {heap + 1}"
        if not any(self.heaps):
            return Step(text=f"I take {stones}{where}, and that was the last. You lose.", result="loss")
        return Step(text=f"I take {stones}{where}. Left: {self._show()}. {self._ask()}")

    def suggest(self) -> str:
        heap, stones = next(_best_moves(self.heaps, self.most), None) or next(_moves(self.heaps, self.most))
        return str(stones) if len(self.heaps) == 1 else f"{heap + 1} {stones}"

    def _answer(self) -> Move:
        chance = self.chance(self.heaps)
        best = next(_best_moves(self.heaps, self.most), None)
        if best is not None and chance.random() < self.skill:
            return best
        return chance.choice(list(_moves(self.heaps, self.most)))

    def _read(self, text: str) -> Move:
        if len(self.heaps) == 1:
            if not _ONE.fullmatch(text):
                raise IllegalMoveError("A move is one whole number: how many stones you take.")
            heap, stones = 1, int(text)
        else:
            found = _TWO.fullmatch(text)
            if found is None:
                raise IllegalMoveError(
                    "A move is two whole numbers: the heap and how many stones, as in 1 2."
                )
            heap, stones = int(found[1]), int(found[2])
        if not 1 <= heap <= len(self.heaps):
            raise IllegalMoveError(f"There is no heap {heap}.")
        most = min(self.heaps[heap - 1], self.most or self.heaps[heap - 1])
        if not 1 <= stones <= most:
            what = f"You may take from 1 to {most} stones" if most else "That heap is empty"
            raise IllegalMoveError(f"{what}, not {stones}.")
        return heap - 1, stones

    def _show(self) -> str:
        if len(self.heaps) == 1:
            return f"{self.heaps[0]} stones" if self.heaps[0] != 1 else "1 stone"
        return ", ".join(f"heap {place} with {stones}" for place, stones in enumerate(self.heaps, start=1))

    def _ask(self) -> str:
        return "How many do you take?" if len(self.heaps) == 1 else "Which heap, and how many?"


def _grundy(heap: int, most: int | None) -> int:
    return heap if most is None else heap % (most + 1)


def _is_won(heaps: Sequence[int], most: int | None) -> bool:
    """Say whether who is to move can win (Bouton 1901)."""
    return reduce(xor, (_grundy(heap, most) for heap in heaps), 0) != 0


def _moves(heaps: Sequence[int], most: int | None) -> Iterator[Move]:
    for place, heap in enumerate(heaps):
        for stones in range(1, min(heap, heap if most is None else most) + 1):
            yield place, stones


def _best_moves(heaps: Sequence[int], most: int | None) -> Iterator[Move]:
    """Yield the moves after which the other cannot win."""
    for place, stones in _moves(heaps, most):
        left = [heap - stones if index == place else heap for index, heap in enumerate(heaps)]
        if not _is_won(left, most):
            yield place, stones
