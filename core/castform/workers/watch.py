"""Look at a worker process: what makes it unfit, and what its environment is warned of."""

from __future__ import annotations

import logging

from castform.workers.limits import WorkerLimits
from castform.workers.process import WorkerProcess
from castform.workers.protocol import BEAT_SECONDS

RESPONSIVE_SECONDS = 3 * BEAT_SECONDS
"""A worker that was silent for longer gets new groups last."""
TOLD_SECONDS = 1.0
"""An environment that holds its event loop for longer is named in a warning, once a place."""
MEGABYTE = 1_000_000

logger = logging.getLogger(__name__)


def is_responsive(worker: WorkerProcess, now: float) -> bool:
    """Say whether its event loop answers, as far as is known; one that is starting counts as such."""
    return not worker.loaded or worker.silent_seconds(now) <= RESPONSIVE_SECONDS


def find_fault(worker: WorkerProcess, limits: WorkerLimits, now: float) -> str | None:
    """Return why a worker has to be killed, or None."""
    if not worker.loaded:
        late = now - worker.started > limits.start_seconds
        return f"it did not load the environment within {limits.start_seconds:g} s" if late else None
    stuck = worker.stuck_seconds(now)
    if stuck >= limits.hang_seconds and runs_rollouts(worker):
        where = f" at {worker.place}" if worker.place else ""
        return f"its event loop did not answer for {stuck:.1f} s{where}"
    if limits.memory_mb is not None:
        resident = worker.resident_bytes()
        if resident is not None and resident > limits.memory_mb * MEGABYTE:
            used = resident // MEGABYTE
            return f"it took {used} MB of memory, more than the limit of {limits.memory_mb} MB"
    return None


def runs_rollouts(worker: WorkerProcess) -> bool:
    """Say whether its loop has to answer: it has work, and is not making a dataset, which may take its time."""
    kinds = {call.kind for call in worker.calls.values()}
    return bool(kinds) and "dataset" not in kinds


class BlockingNotice:
    """Names environment code that holds a worker's event loop: each place once, and one place each time."""

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._told: set[str] = set()
        self._held: set[str] = set()
        """Workers of which it was told, and that are held still."""

    def look(self, worker: WorkerProcess, now: float) -> None:
        """Warn when the worker's loop is held, at a place that was not named yet."""
        stuck = worker.stuck_seconds(now)
        place = worker.place
        if stuck < TOLD_SECONDS:
            self._held.discard(worker.name)
        if stuck < TOLD_SECONDS or place is None or worker.name in self._held or not runs_rollouts(worker):
            return
        self._held.add(worker.name)
        if place in self._told:
            return
        self._told.add(place)
        logger.warning(
            "%s has held the event loop of %s for %.1f s at %s, and the other rollouts there wait: await what it "
            "waits for, or set score_in_thread = True on the environment when it is the reward",
            self._environment,
            worker.name,
            stuck,
            place,
        )
