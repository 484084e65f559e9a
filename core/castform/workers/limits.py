"""What worker processes may take and how long they may be silent."""

from __future__ import annotations

from dataclasses import dataclass

MAX_WORKERS = 256
"""Of one environment."""
HANG_SECONDS = 60.0
START_SECONDS = 600.0
MORE_DEATHS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLimits:
    """Beyond one of these a worker process is killed, and its rollouts fail with `worker_lost`."""

    hang_seconds: float = HANG_SECONDS
    """Longest that its event loop may not answer, and no rollout or model call end, while it runs rollouts."""
    memory_mb: int | None = None
    """Most resident memory, in MB of 10^6 bytes, looked at several times a second. None: no limit."""
    start_seconds: float = START_SECONDS
    """Longest that loading the environment may take."""
    output_bytes: int = 32_000_000
    """Most that it may write to stdout and stderr within `output_seconds`."""
    output_seconds: float = 10.0
    least_deaths: int = 5
    """Deaths in a row, without a finished group between them, that end the run: with one worker, and 2 more
    for each further one, as they may well die together."""

    def most_deaths(self, workers: int) -> int:
        """Return how many deaths in a row end the run."""
        return self.least_deaths + MORE_DEATHS * (workers - 1)
