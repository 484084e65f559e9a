"""A thread that waits for file descriptors and does what others post to it, one thing after the other."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

Action: TypeAlias = Callable[[], None]


class Reactor:
    """Calls back when a descriptor is ready, when something was posted, and at least every `tick_seconds`.

    It runs until `is_done` says so, then calls `at_end`; what is posted later runs in the poster's thread.
    """

    def __init__(
        self,
        *,
        name: str,
        tick_seconds: float,
        on_tick: Action,
        is_done: Callable[[], bool],
        on_error: Callable[[BaseException], None],
        at_end: Action,
    ) -> None:
        self._tick_seconds = tick_seconds
        self._on_tick = on_tick
        self._is_done = is_done
        self._on_error = on_error
        self._at_end = at_end
        self._inbox: deque[Action] = deque()
        self._lock = threading.RLock()  # a finalizer that posts may run within `post`
        self._ended = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._drain_wake)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, action: Action) -> None:
        """Have an action done in the thread, soon. May be called from any thread."""
        with self._lock:
            ended = self._ended
            if not ended:
                self._inbox.append(action)
                with contextlib.suppress(BlockingIOError):  # it is full, so it wakes anyway
                    os.write(self._wake_write, b"x")
        if ended:
            action()

    def watch(self, descriptor: int, action: Action, *, writing: bool = False) -> None:
        """Call the action whenever a descriptor can be read, or written. Asking twice is fine."""
        if descriptor not in self._selector.get_map():
            kind = selectors.EVENT_WRITE if writing else selectors.EVENT_READ
            self._selector.register(descriptor, kind, action)

    def forget(self, descriptor: int) -> None:
        """Watch a descriptor no longer, if it is watched. Before it is closed."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(descriptor)

    def _run(self) -> None:
        try:
            while not self._is_done():
                for key, _ in self._selector.select(self._tick_seconds):
                    if key.fd in self._selector.get_map():  # not forgotten in this very turn
                        key.data()
                while self._inbox:
                    self._inbox.popleft()()
                self._on_tick()
        except BaseException as error:
            self._on_error(error)
            raise
        finally:
            with self._lock:
                self._ended = True
                os.close(self._wake_read)
                os.close(self._wake_write)
            self._selector.close()
            self._at_end()
            while self._inbox:
                self._inbox.popleft()()

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass
