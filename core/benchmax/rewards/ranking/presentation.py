"""In which sequence, and under which numbers, a judge sees the entries that it ranks.

Judges favour places (the first, the last) and numbers. A fixed sequence would hand
that favour to the same entry each time, most of all to a ground truth that always
comes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from benchmax.rewards.ranking.positions import Ranking
from benchmax.rewards.rubric import Rubric


@dataclass(frozen=True, kw_only=True, slots=True)
class Presentation:
    """One way to show the entries 0 to n-1."""

    sequence: tuple[int, ...]
    """The entries in the order in which they are shown."""
    labels: tuple[int, ...]
    """The number under which entry 0, 1, ... is shown."""

    def to_entries(self, ranking: Ranking) -> Ranking:
        """Return a ranking of labels as a ranking of entries."""
        entries = {label: entry for entry, label in enumerate(self.labels)}
        return tuple(tuple(entries[label] for label in tier) for tier in ranking)


def presentation_seed(rubric: Rubric, question: str) -> str:
    """Return what the order of a question's answers is drawn from, besides the answers."""
    return f"{rubric.title}\0{question}"


def plan_presentations(texts: Sequence[str], count: int, *, seed: str) -> list[Presentation]:
    """Return `count` ways to show the texts, in pairs that are each other's mirror.

    The first of a pair keeps every entry's own index as its label and shows them in an
    order drawn from the seed and the texts themselves, whatever the order given: the
    same call repeats exactly, and an answer's place does not depend on its siblings'
    order. The second shows all of it backwards, numbers too, so that over a pair every
    entry has the same mean place and the same mean number.
    """
    return [
        _presentation(texts, pair=number // 2, seed=seed, mirrored=number % 2 == 1) for number in range(count)
    ]


def _presentation(texts: Sequence[str], *, pair: int, seed: str, mirrored: bool) -> Presentation:
    def draw(entry: int) -> bytes:
        drawn_for = "\0".join((str(pair), seed, texts[entry]))
        return sha256(drawn_for.encode("utf-8", "surrogatepass")).digest()

    entries = range(len(texts))
    sequence = tuple(sorted(entries, key=draw))
    if mirrored:
        return Presentation(sequence=sequence[::-1], labels=tuple(reversed(entries)))
    return Presentation(sequence=sequence, labels=tuple(entries))
