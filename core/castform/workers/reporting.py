"""What a worker tells its host while it works: attempts, model calls and log records, in small batches."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmax.envs import RolloutAttempt
from benchmax.envs.logging import current_group_ids, current_rollout_id
from castform.workers.channel import Channel
from castform.workers.exceptions import cut_text
from castform.workers.protocol import FrameTooLargeError

FLUSH_SECONDS = 0.05
"""How long an event may wait for others."""
LOGS_A_SECOND = 200
"""More records than this are counted, not sent."""

UNSENDABLE = (FrameTooLargeError, TypeError, ValueError, RecursionError)
"""What encoding a message raises: it is too large, or holds keys that are no text, itself, or lists without end."""

logger = logging.getLogger(__name__)


class CallReporter:
    """The observer of one group: sends what it is told, and of a growing transcript only what is new."""

    def __init__(self, call: int, channel: Channel, on_progress: Callable[[], None]) -> None:
        self._call = call
        self._channel = channel
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._waiting: list[dict[str, Any]] = []
        self._sent: dict[str, Sequence[Any]] = {}

    def on_call(
        self, rollout_id: str, request: Mapping[str, Any], reply: Mapping[str, Any], seconds: float
    ) -> None:
        messages = list(request.get("messages") or ())
        known = count_shared(self._sent.get(rollout_id, ()), messages)
        self._sent[rollout_id] = messages
        self._add(
            {
                "k": "call",
                "rollout": rollout_id,
                "known": known,
                "messages": messages[known:],
                "request": {key: value for key, value in request.items() if key != "messages"},
                "reply": reply,
                "seconds": seconds,
            }
        )

    def on_attempt(self, attempt: RolloutAttempt) -> None:
        self._add({"k": "attempt", **describe_attempt(attempt)})

    def flush(self) -> None:
        """Send what waits. An event that no frame takes is sent without its texts."""
        events, self._waiting = self._waiting, []
        if not events:
            return
        try:
            self._send(events)
        except UNSENDABLE:
            for event in events:
                try:
                    self._send([event])
                except UNSENDABLE as error:
                    logger.warning("what rollout %s said is not passed on: %s", event["rollout"], error)
                    if event["k"] == "attempt":
                        self._send(
                            [
                                {
                                    **event,
                                    "messages": [],
                                    "error": event["error"] and cut_text(str(event["error"])),
                                }
                            ]
                        )

    def _add(self, event: dict[str, Any]) -> None:
        self._on_progress()
        self._waiting.append(event)
        if len(self._waiting) == 1:
            self._loop.call_later(FLUSH_SECONDS, self.flush)

    def _send(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._channel.send({"t": "events", "call": self._call, "events": events})


def describe_attempt(attempt: RolloutAttempt) -> dict[str, Any]:
    """Return an attempt as JSON: what every one has, and the transcript where there is one."""
    return {
        "rollout": attempt.rollout_id,
        "reason": attempt.termination_reason,
        "rewards": attempt.rewards,
        "error": attempt.error,
        "messages": getattr(attempt, "messages", None),
    }


def count_shared(before: Sequence[Any], now: Sequence[Any]) -> int:
    """Return how many messages both begin with."""
    shared = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old != new:
            break
        shared += 1
    return shared


class LogForwarder(logging.Handler):
    """Sends log records to the host, with the rollout that they belong to; a flood is counted instead."""

    def __init__(self, channel: Channel, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self.setFormatter(logging.Formatter("%(message)s"))  # the host adds the rest
        self._channel = channel
        self._guard = threading.Lock()
        self._second = 0
        self._sent = 0
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        left_out = self._take_turn()
        if left_out is None:
            return
        try:
            text = self.format(record)
            if left_out:
                text += f" ({left_out} more records were left out)"
            described = {
                "name": record.name,
                "level": record.levelno,
                "text": text[:10_000],
                "rollout": current_rollout_id(),
                "group": current_group_ids(),
            }
            self._channel.send({"t": "logs", "records": [described]})
        except Exception:  # noqa: BLE001 - a record of the author's that cannot be formatted
            self.handleError(record)

    def _take_turn(self) -> int | None:
        """Return how many records were left out since the last one, or None when this one is to be."""
        with self._guard:
            second = int(self._clock())
            if second != self._second:
                self._second, self._sent = second, 0
            if self._sent >= LOGS_A_SECOND:
                self._left_out += 1
                return None
            self._sent += 1
            left_out, self._left_out = self._left_out, 0
            return left_out
