"""Tells the host several times a second whether the worker's event loop still answers."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from castform.stuck import find_standing_place
from castform.workers.channel import Channel
from castform.workers.protocol import BEAT_SECONDS

TOLD_PLACE_SECONDS = 1.0
"""A loop that is stuck for longer gets the line that holds it named."""
TRANSPORT = ("aiohttp", "aiohappyeyeballs", "yarl", "multidict", "httpx", "httpcore", "openai", "anyio")
"""Slow to start and busy with many calls, and never the one to blame: whose call it is, is."""


class Pulse:
    """A thread that asks the running loop for a sign of life.

    A loop that is silent because many short things wait in it is slow; one in which nothing
    comes to an end is stuck.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._asked: float | None = None
        self._progress = time.monotonic()
        threading.Thread(target=self._run, name="castform-pulse", daemon=True).start()

    def note_progress(self) -> None:
        """Say that something came to an end; called on the loop."""
        self._progress = time.monotonic()

    def _run(self) -> None:
        pause = threading.Event()
        while not self._loop.is_closed():
            asked = self._asked
            now = time.monotonic()
            silent = 0.0 if asked is None else now - asked
            stuck = 0.0 if asked is None else now - max(asked, self._progress)
            told = stuck >= TOLD_PLACE_SECONDS and not is_importing(self._thread)
            place = find_standing_place(self._thread, passed=TRANSPORT) if told else None
            self._channel.send(
                {
                    "t": "beat",
                    "silent": silent,
                    "stuck": stuck,
                    "place": None if place is None else str(place),
                }
            )
            if asked is None:
                self._asked = time.monotonic()
                try:
                    self._loop.call_soon_threadsafe(self._answer)
                except RuntimeError:  # the loop was closed meanwhile
                    return
            pause.wait(BEAT_SECONDS)

    def _answer(self) -> None:
        self._asked = None


def is_importing(ident: int) -> bool:
    """Say whether a thread is in an import, which takes its time once and is no fault of a reward."""
    frame = sys._current_frames().get(ident)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
