"""All kinds of tasks, and how a dataset is drawn from them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import cycle
from types import MappingProxyType

from castform_env_shell import easy, hard, medium
from castform_env_shell.task import Level, Maker, Split, Task, key_of, split_of

KINDS: Mapping[Level, Sequence[Maker]] = MappingProxyType(
    {"easy": easy.MAKERS, "medium": medium.MAKERS, "hard": hard.MAKERS}
)
TURNS: Mapping[Level, int] = MappingProxyType({"easy": 1, "medium": 3, "hard": 5})
"""Replies that a task of a level is worth."""
MOST_TRIES = 60
"""Draws of one kind for one task, before the kind has no more of them."""


def draw_tasks(split: Split, *, level: Level | None, seed: int) -> Iterator[tuple[str, Level, Task]]:
    """Yield (kind, level, task), every kind in turn, no task twice, until the kinds run out.

    What comes does not depend on how many are taken. A solved example is never among them.
    """
    levels: Sequence[Level] = (level,) if level is not None else ("easy", "medium", "hard")
    kinds = [(maker.__name__, each, maker) for each in levels for maker in KINDS[each]]
    seen = {key_of(make_demo(name)) for name, _, _ in kinds}
    rng = {name: random.Random(f"{seed}:{split}:{name}") for name, _, _ in kinds}
    spent: set[str] = set()
    for name, each, maker in cycle(kinds):
        if len(spent) == len(kinds):
            return
        if name in spent:
            continue
        for _ in range(MOST_TRIES):
            task = maker(rng[name])
            if split_of(task) == split and key_of(task) not in seen:
                seen.add(key_of(task))
                yield name, each, task
                break
        else:
            spent.add(name)


@cache
def make_demo(kind: str) -> Task:
    """Return the task of a kind that is shown solved."""
    makers = {maker.__name__: maker for each in KINDS.values() for maker in each}
    return makers[kind](random.Random(f"demo:{kind}"))


def shown_kind(kind: str, level: Level) -> str:
    """Return the kind of the solved task that stands before one of this kind: of hard tasks, another."""
    if level != "hard":
        return kind
    names = [maker.__name__ for maker in KINDS[level]]
    return names[(names.index(kind) + 1) % len(names)]
