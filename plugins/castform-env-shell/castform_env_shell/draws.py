"""Draw names, words and numbers for tasks."""

from __future__ import annotations

import random

WORDS = (
    *("river", "stone", "lamp", "cloud", "paper", "green", "apple", "otter", "maple", "tiger"),
    *("silver", "window", "garden", "candle", "rocket", "pepper", "violin", "harbor", "meadow", "copper"),
    *("falcon", "ginger", "island", "jacket", "kettle", "lemon", "marble", "needle", "orange", "pencil"),
    *("quartz", "ribbon", "saddle", "timber", "velvet", "walnut", "yellow", "zebra", "anchor", "basket"),
)
STEMS = (
    *("notes", "list", "data", "log", "report", "draft", "plan", "items", "record", "table"),
    *("memo", "index", "page", "story", "letter", "sample", "entry", "input", "result", "summary"),
)


def words(rng: random.Random, count: int) -> list[str]:
    """Return different words."""
    return rng.sample(WORDS, count)


def names(rng: random.Random, count: int, suffix: str = ".txt") -> list[str]:
    """Return different file names."""
    return [f"{stem}{suffix}" for stem in rng.sample(STEMS, count)]


def folders(rng: random.Random, count: int) -> list[str]:
    """Return different folder names."""
    return [f"{word}_{rng.randint(1, 99)}" for word in rng.sample(WORDS, count)]


def text_of(lines: list[str]) -> str:
    """Return lines as the content of a file."""
    return "".join(f"{line}\n" for line in lines)


def word_lines(rng: random.Random, low: int, high: int) -> list[str]:
    """Return so many lines of one word each, some of them more than once."""
    pool = rng.sample(WORDS, 8)
    return [rng.choice(pool) for _ in range(rng.randint(low, high))]
