"""Let a host watch rollouts: every settled attempt, and every model call of a BaseEnv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from benchmax.envs.shared_types import RolloutAttempt


class RolloutObserver(Protocol):
    """Is told about rollouts while they run, in the task of the rollout. It must not block."""

    def on_call(
        self, rollout_id: str, request: Mapping[str, Any], reply: Mapping[str, Any], seconds: float
    ) -> None:
        """One model call was answered: the decoded JSON bodies, and how long it took, retries included."""
        ...

    def on_attempt(self, attempt: RolloutAttempt) -> None:
        """A rollout ended, by itself or by a RolloutFailure. Group scoring has not happened yet."""
        ...


_observer: ContextVar[RolloutObserver | None] = ContextVar("benchmax_rollout_observer", default=None)


@contextmanager
def observe_rollouts(observer: RolloutObserver) -> Iterator[None]:
    """Send everything that runs inside to the observer, in place of an outer one."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def current_observer() -> RolloutObserver | None:
    """Return the observer in force here, or None."""
    return _observer.get()
