"""When and how long to wait before a failed request is made again."""

from __future__ import annotations

import time
import zlib

TRANSIENT_STATUSES = frozenset({408, 409, 429})
MAX_RETRY_SECONDS = 60.0
"""A server that asks for more patience than this is given up at once."""
JITTER = 0.25
"""Share of the pause that differs between rollouts, so that siblings do not come back all at once."""


def is_transient_status(status: int) -> bool:
    """Whether the same request may well succeed later: overload, a lock, or a server fault."""
    return status in TRANSIENT_STATUSES or status >= 500


def retry_delay(attempt: int, *, base_seconds: float, retry_after: str | None, key: str) -> float | None:
    """Return the seconds to wait before retry number `attempt` (from 0), or None to give up.

    A Retry-After header (seconds or an HTTP date) decides when there is a readable one,
    and otherwise `base_seconds` doubled `attempt` times. The spread between rollouts
    comes from `key`, not from a random generator: a run repeats exactly.
    """
    asked = _seconds_asked_for(retry_after)
    if asked is not None:
        return asked if asked <= MAX_RETRY_SECONDS else None
    spread = 1 - JITTER * (zlib.crc32(f"{key}/{attempt}".encode()) / 2**32)
    return min(base_seconds * 2.0**attempt, MAX_RETRY_SECONDS) * spread


def _seconds_asked_for(retry_after: str | None) -> float | None:
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        from email.utils import parsedate_to_datetime  # rare, and a seventh of the import time

        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if seconds == seconds else None  # NaN differs from itself
