"""One thing that the host asks of a worker, from the asking to the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from castform.errors import RunFailedError


class WorkerLostError(Exception):
    """The process that had the call is gone; the text says why."""


class WorkersFailedError(RunFailedError):
    """Workers die one after the other: nothing can be run, so the run ends. Not the fault of one group."""


def _ignore(events: Sequence[Mapping[str, Any]]) -> None:
    return None


@dataclass(kw_only=True, eq=False)
class Call:
    """A message to a worker and the place for its answer.

    `answer` gets the value; the environment's exception under its own name; WorkerLostError; or
    WorkersFailedError. An environment that cancels its own work answers `CANCELLED`.
    """

    message: Mapping[str, Any] = field(repr=False)
    """Without its number, which the pool gives. Not shown: it may hold a key."""
    weight: int = 1
    """How much of a worker it takes: rollouts."""
    on_events: Callable[[Sequence[Mapping[str, Any]]], None] = _ignore
    """Gets attempts and model calls, or parts of a dataset, in the pool's thread, before the answer."""
    answer: Future[Any] = field(default_factory=Future)
    number: int = -1
    cancelled: bool = False

    @property
    def kind(self) -> str:
        return str(self.message["t"])


CANCELLED = object()
"""Answer of a call whose work was cancelled in the worker."""
