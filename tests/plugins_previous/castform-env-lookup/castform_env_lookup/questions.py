"""Questions that need one or two cells of the table, and never anything from memory."""

from __future__ import annotations

import random
from dataclasses import dataclass

from castform_env_lookup.table import COLUMNS, Split, load_table, split_of

Cell = tuple[str, str]
"""(place, column)."""

_SINGLE = {
    "height": "How high is {0}, in metres?",
    "founded": "In which year was {0} founded?",
    "people": "How many people live in {0}?",
    "rain": "How much rain falls on {0} in a year, in millimetres?",
}
_DIFFERENCE = {
    "height": "How many metres higher is {0} than {1}?",
    "founded": "How many years after {1} was {0} founded?",
    "people": "How many more people live in {0} than in {1}?",
    "rain": "How many more millimetres of rain fall in a year on {0} than on {1}?",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    text: str
    answer: int
    cells: tuple[Cell, ...]
    """What has to be looked up."""

    @property
    def id(self) -> str:
        return "-".join(f"{name}.{column}" for name, column in self.cells)


def list_single_questions(split: Split) -> list[Question]:
    """Return every one-cell question about the places of a split."""
    return [
        Question(text=_SINGLE[column].format(name), answer=row[column], cells=((name, column),))
        for name, row in load_table().items()
        if split_of(name) == split
        for column in COLUMNS
    ]


def draw_difference_questions(split: Split, *, count: int, rng: random.Random) -> list[Question]:
    """Return up to `count` different two-cell questions; both places lie in the split, the answer is above 0."""
    table = load_table()
    names = [name for name in table if split_of(name) == split]
    pairs = [
        (high, low, column)
        for column in COLUMNS
        for high in names
        for low in names
        if table[high][column] > table[low][column]
    ]
    return [
        Question(
            text=_DIFFERENCE[column].format(high, low),
            answer=table[high][column] - table[low][column],
            cells=((high, column), (low, column)),
        )
        for high, low, column in rng.sample(pairs, min(count, len(pairs)))
    ]


def draw_questions(split: Split, *, lookups: int | None, count: int, seed: int) -> list[Question]:
    """Return up to `count` questions with `lookups` cells each (None: one and two in turn)."""
    rng = random.Random(f"{seed}:{split}")
    singles = list_single_questions(split)
    rng.shuffle(singles)
    if lookups == 1:
        return singles[:count]
    differences = draw_difference_questions(split, count=count, rng=rng)
    if lookups == 2:
        return differences
    pairs = zip(singles, differences, strict=False)
    return [question for pair in pairs for question in pair][:count]
