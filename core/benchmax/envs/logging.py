"""Which rollout, or which group, the running code belongs to.

A host reads these while it handles a log record: an environment's ordinary `logging`
calls then land beside the rollout that made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_rollout_id: ContextVar[str | None] = ContextVar("benchmax_rollout_id", default=None)
_group_ids: ContextVar[tuple[str, ...]] = ContextVar("benchmax_group_ids", default=())


@contextmanager
def rollout_context(rollout_id: str) -> Iterator[None]:
    """Attribute everything that runs inside, tasks and threads with a copied context too, to one rollout."""
    token = _rollout_id.set(rollout_id)
    try:
        yield
    finally:
        _rollout_id.reset(token)


@contextmanager
def group_context(rollout_ids: Iterable[str]) -> Iterator[None]:
    """Attribute everything that runs inside to the rollouts that are being scored together."""
    token = _group_ids.set(tuple(rollout_ids))
    try:
        yield
    finally:
        _group_ids.reset(token)


def current_rollout_id() -> str | None:
    """Return the id of the rollout that the caller runs in, or None outside of one."""
    return _rollout_id.get()


def current_group_ids() -> tuple[str, ...]:
    """Return the ids of the rollouts that the caller scores together; empty outside of group scoring."""
    return _group_ids.get()
