"""Find a word: every guess is answered with a mark a letter."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from castform_env_games.game import Game, IllegalMoveError, Setup, Step

LENGTHS = {1: (3, 8), 2: (4, 7), 3: (5, 6)}
"""Level to (letters, guesses)."""
RIGHT, ELSEWHERE, ABSENT = "+", "?", "-"
MOST_PROBES = 12
"""Words that are compared as the next guess of the best play."""
_LETTERS = re.compile(r"[a-z]+")


class WordGame(Game):
    """The computer has chosen a word of its list, and made a first guess for the model."""

    name = "words"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.secret: str = setup["word"]
        self.first: str = setup["first"]
        self.move_limit = self.left = setup["guesses"]
        self._possible = [w for w in list_words(len(self.secret)) if self._fits(w, self.first)]

    @classmethod
    def list_setups(cls, level: int) -> Sequence[Setup]:
        """Return one game for each word: the first guess follows from the word."""
        letters, _ = LENGTHS[level]
        words = list_words(letters)
        demo = cls.demo(level)[0]["word"]
        return [_make_setup(word, level) for word in words if word != demo]

    @classmethod
    def find_key(cls, setup: Setup) -> str:
        return str(setup["word"])

    @classmethod
    def demo(cls, level: int) -> tuple[Setup, Sequence[str]]:
        word, first, *guesses = {
            1: ["sun", "bun", "run"],
            2: ["lake", "cake", "make"],
            3: ["light", "night", "might"],
        }[level]
        return {"word": word, "first": first, "guesses": LENGTHS[level][1]}, [*guesses, word]

    def opening(self) -> str:
        return (
            f"I am thinking of an English word of {len(self.secret)} letters. Each guess gets a mark a letter: {RIGHT} right, "
            f"{ELSEWHERE} elsewhere in the word, {ABSENT} not in it. A first guess is made for you.\n"
            f"{self.first}: {mark_guess(self.first, self.secret)}\nYou have {self.left} guesses. Your guess?"
        )

    def move(self, text: str) -> Step:
        guess = text.lower()
        if not _LETTERS.fullmatch(guess) or len(guess) != len(self.secret):
            raise IllegalMoveError(f"A guess is one word of {len(self.secret)} letters from a to z.")
        self.left -= 1
        if guess == self.secret:
            return Step(text=f"Yes, it is {guess}. You win.", result="win")
        if self.left == 0:
            return Step(text=f"No, it is {self.secret}. You lose.", result="loss")
        self._possible = [word for word in self._possible if self._fits(word, guess)]
        marks = mark_guess(guess, self.secret)
        return Step(text=f"{guess}: {marks}\nGuesses left: {self.left}. Your guess?")

    def suggest(self) -> str:
        """Return the possible word that tells most of the others apart."""
        probes = self._possible[:MOST_PROBES]
        return max(probes, key=lambda probe: len({mark_guess(probe, word) for word in self._possible}))

    def _fits(self, word: str, guess: str) -> bool:
        return word != guess and mark_guess(guess, word) == mark_guess(guess, self.secret)


@cache
def list_words(letters: int) -> tuple[str, ...]:
    """Return the words of so many letters, sorted."""
    text = (files("castform_env_games") / "words.txt").read_text(encoding="utf-8")
    return tuple(word for word in text.split() if len(word) == letters)


@cache
def mark_guess(guess: str, secret: str) -> str:
    """Return a mark for each letter; a letter is marked as elsewhere as often as the word has it left."""
    spare = Counter(s for g, s in zip(guess, secret, strict=True) if g != s)
    marks = []
    for letter, right in zip(guess, secret, strict=True):
        if letter == right:
            marks.append(RIGHT)
        elif spare[letter] > 0:
            spare[letter] -= 1
            marks.append(ELSEWHERE)
        else:
            marks.append(ABSENT)
    return "".join(marks)


def _make_setup(word: str, level: int) -> Setup:
    letters, guesses = LENGTHS[level]
    others = [other for other in list_words(letters) if other != word]
    first = random.Random(f"castform-env-games:words:{word}").choice(others)
    return {"word": word, "first": first, "guesses": guesses}
