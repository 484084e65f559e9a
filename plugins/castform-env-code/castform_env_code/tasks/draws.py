"""Draw arguments for tasks."""

from __future__ import annotations

import random

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = (
    "river",
    "stone",
    "lamp",
    "cloud",
    "paper",
    "green",
    "apple",
    "level",
    "noon",
    "otter",
    "a",
    "sky",
    "tree",
)


def number(rng: random.Random, low: int = -50, high: int = 50) -> tuple[int]:
    return (rng.randint(low, high),)


def two_numbers(rng: random.Random, low: int = -50, high: int = 50) -> tuple[int, int]:
    return rng.randint(low, high), rng.randint(low, high)


def numbers(rng: random.Random, low: int = -20, high: int = 20, most: int = 9) -> list[int]:
    return [rng.randint(low, high) for _ in range(rng.randint(0, most))]


def word(rng: random.Random, most: int = 9, letters: str = LETTERS) -> str:
    return "".join(rng.choice(letters) for _ in range(rng.randint(0, most)))


def words(rng: random.Random, most: int = 7) -> list[str]:
    return [rng.choice(WORDS) for _ in range(rng.randint(0, most))]


def sentence(rng: random.Random, most: int = 7) -> str:
    return " ".join(words(rng, most))
