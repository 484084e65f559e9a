"""Draw entries of a dataset from a seed, each question on its own side of the split.

A hash of the question decides its side, so a question that is held out is never asked in
training, whatever the seed, the sizes or the dataset's options; where several seeds give
the same question, it is drawn once.
"""

from __future__ import annotations

import decimal
import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmax.envs import DatasetSplit

HELD_OUT_SHARE = 0.4
"""Share of the questions that only evaluation sees."""
CHUNK = 200
"""Entries of one reasoning-gym dataset; then the next one is made, since some are made whole."""
GIVE_UP_AFTER = 400
"""Draws in a row without a new question on the wanted side: the dataset has no more."""
SEED_STEP = 1_000_003
"""reasoning-gym counts seeds up by one an entry; two of our seeds should not meet."""

Entry = dict[str, Any]
"""`question`, `answer` (None where there is none) and `metadata`, as reasoning-gym makes it."""


class Draws:
    """The entries of one dataset in the order of their seeds, drawn as far as they are needed."""

    def __init__(self, make_dataset: Callable[[int, int], Any], *, seed: int) -> None:
        """`make_dataset(seed, size)` returns a reasoning-gym dataset."""
        self._stream = _iter_entries(make_dataset, seed * SEED_STEP % 2**31)
        self._found: dict[DatasetSplit, dict[str, Entry]] = {"train": {}, "eval": {}}

    def take(self, split: DatasetSplit, count: int) -> dict[str, Entry]:
        """Return up to `count` different questions of a split by id, always the same ones first.

        Fewer come back only when `GIVE_UP_AFTER` draws in a row brought no new one.
        """
        wanted = self._found[split]
        vain = 0
        while len(wanted) < count and vain < GIVE_UP_AFTER:
            entry = next(self._stream)
            digest = hash_question(entry["question"])
            before = len(wanted)
            self._found[split_of(digest)].setdefault(digest[:16], entry)
            vain = vain + 1 if len(wanted) == before else 0
        return dict(list(wanted.items())[:count])


def hash_question(question: str) -> str:
    """Return a question's SHA-256: its first 16 digits are its id, on any machine and for any seed."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()


def split_of(digest: str) -> DatasetSplit:
    """Return the side of a question, by digits that its id does not show."""
    return "eval" if int(digest[-16:], 16) < HELD_OUT_SHARE * 2**64 else "train"


def _iter_entries(make_dataset: Callable[[int, int], Any], seed: int) -> Iterator[Entry]:
    while True:
        with own_globals(seed):
            dataset = make_dataset(seed, CHUNK)
        for index in range(CHUNK):
            with own_globals(seed + index):
                entry = dataset[index]
            yield entry
        seed += CHUNK


@contextmanager
def own_globals(seed: int) -> Iterator[None]:
    """Give code that uses the global random states, or sets the decimal context, ones of its own.

    codeio, list_functions and pool_matrix draw from the global generators: without this their
    questions would change from run to run, and making them would change what other code draws.
    decimal_arithmetic sets the precision of every decimal in the thread.
    """
    import numpy as np

    python, numpy = random.getstate(), np.random.get_state()
    random.setstate(random.Random(seed).getstate())
    np.random.set_state(np.random.RandomState(seed % 2**32).get_state())
    try:
        with decimal.localcontext():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
