"""Keys and values of recent prompts, so that a prompt that begins like one of them starts there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile

from castform_trainer.engines.transformers_cache import Snapshot

MIN_PREFIX = 8
"""Shorter matches are not worth a copy."""


class PrefixCache:
    """Least-recently-used snapshots within a memory bound. Valid for one adapter: `clear` at every switch."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.hit_tokens = 0
        """Tokens that did not have to be computed, since the start."""
        self._entries: OrderedDict[tuple[int, ...], tuple[Snapshot, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, ids: Sequence[int]) -> tuple[Snapshot, int] | None:
        """Return the snapshot that shares most with `ids` and how many tokens of it to use.

        Never all of `ids`: the last token is always computed, for its logits.
        """
        wanted = tuple(ids)
        best: tuple[int, ...] | None = None
        best_length = MIN_PREFIX - 1
        for key in self._entries:
            length = min(shared_length(key, wanted), len(wanted) - 1)
            if length > best_length:
                best, best_length = key, length
        if best is None:
            return None
        self._entries.move_to_end(best)
        self.hit_tokens += best_length
        return self._entries[best][0], best_length

    def add(self, ids: Sequence[int], snapshot: Snapshot) -> None:
        """Keep a snapshot of `ids`; one that it continues is dropped, as this one serves for it."""
        key = tuple(ids)
        if key in self._entries or self.max_bytes <= 0:
            return
        size = sum(keys.nbytes + values.nbytes for keys, values in snapshot)
        if size > self.max_bytes:
            return
        for old in [old for old in self._entries if len(old) < len(key) and key[: len(old)] == old]:
            self._drop(old)
        self._entries[key] = (snapshot, size)
        self._bytes += size
        while self._bytes > self.max_bytes:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0

    def _drop(self, key: tuple[int, ...]) -> None:
        self._bytes -= self._entries.pop(key)[1]


def shared_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many leading ids are equal."""
    size = min(len(left), len(right))
    if left[:size] == right[:size]:
        return size
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
