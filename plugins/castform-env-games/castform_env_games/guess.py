"""Find a number: every guess is answered with higher or lower."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from castform_env_games.game import Game, IllegalMoveError, Setup, Step

RANGES = {1: (10, 5), 2: (30, 6), 3: (100, 8)}
"""Level to (how many numbers, how many guesses); halving finds each with a guess to spare."""
LOWEST = {1: range(1, 91), 2: range(1, 901), 3: range(1, 901)}
"""Level to where its ranges begin. Small numbers are easier to say."""
DEMO_LOWEST = {1: 0, 2: 901, 3: 901}
_NUMBER = re.compile(r"-?[0-9]{1,6}")


class Guess(Game):
    """The computer has chosen a number. On level 1 every answer says where it still can be."""

    name = "guess"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.low, self.high, self.secret = setup["low"], setup["high"], setup["secret"]
        self.move_limit = self.left = setup["guesses"]
        self._tells_range: bool = setup["tells_range"]
        self._least, self._most = self.low, self.high

    @classmethod
    def list_setups(cls, level: int) -> Sequence[Setup]:
        """Return one game for each range: which number it is follows from the range."""
        return [_make_setup(low, level) for low in LOWEST[level]]

    @classmethod
    def demo(cls, level: int) -> tuple[Setup, Sequence[str]]:
        setup = _make_setup(DEMO_LOWEST[level], level)
        low = setup["low"]
        return {**setup, "secret": low + 6}, [str(low + 4), str(low + 6)]

    def opening(self) -> str:
        return (
            f"I am thinking of a whole number from {self.low} to {self.high}. You have {self.left} guesses. "
            "Your guess?"
        )

    def move(self, text: str) -> Step:
        if not _NUMBER.fullmatch(text):
            raise IllegalMoveError("A guess is one whole number.")
        number = int(text)
        if not self.low <= number <= self.high:
            raise IllegalMoveError(f"It is a number from {self.low} to {self.high}.")
        self.left -= 1
        if number == self.secret:
            return Step(text=f"Yes, it is {number}. You win.", result="win")
        if self.left == 0:
            return Step(text=f"No, it is {self.secret}. You lose.", result="loss")
        if number < self.secret:
            self._least = max(self._least, number + 1)
        else:
            self._most = min(self._most, number - 1)
        hint = "Higher" if number < self.secret else "Lower"
        where = f" It is from {self._least} to {self._most}." if self._tells_range else ""
        return Step(text=f"{hint} than {number}.{where} Guesses left: {self.left}. Your guess?")

    def suggest(self) -> str:
        return str((self._least + self._most) // 2)


def _make_setup(low: int, level: int) -> Setup:
    size, guesses = RANGES[level]
    digest = hashlib.sha256(f"castform-env-games:guess:{level}:{low}".encode()).digest()
    return {
        "low": low,
        "high": low + size - 1,
        "secret": low + int.from_bytes(digest[:8], "big") % size,
        "guesses": guesses,
        "tells_range": level == 1,
    }
