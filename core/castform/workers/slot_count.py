"""The host's side of `max_concurrent_rollouts`: who holds a slot and who waits, over all workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from castform.workers.process import WorkerProcess

Holder: TypeAlias = tuple[WorkerProcess, int]
"""A worker and the number that it gave one of its rollouts."""


class SlotCount:
    """First come, first served. `grant` tells a worker that a rollout of its may start."""

    def __init__(self, limit: int, grant: Callable[[WorkerProcess, int], None]) -> None:
        self._limit = limit
        self._grant = grant
        self._held: set[Holder] = set()
        self._waiting: deque[Holder] = deque()

    def want(self, worker: WorkerProcess, ticket: int) -> None:
        """Give a slot now or when one is free."""
        self._waiting.append((worker, ticket))
        self._hand_out()

    def give_back(self, worker: WorkerProcess, ticket: int) -> None:
        """Take a slot back, or forget that one was wanted."""
        if (worker, ticket) in self._held:
            self._held.remove((worker, ticket))
        elif (worker, ticket) in self._waiting:
            self._waiting.remove((worker, ticket))
        self._hand_out()

    def forget(self, worker: WorkerProcess) -> None:
        """Take back everything of a worker that is gone."""
        self._held = {holder for holder in self._held if holder[0] is not worker}
        self._waiting = deque(holder for holder in self._waiting if holder[0] is not worker)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting and len(self._held) < self._limit:
            holder = self._waiting.popleft()
            self._held.add(holder)
            self._grant(*holder)
