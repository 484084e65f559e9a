"""End a rule that takes too long, also where the environment's code never gives the event loop back."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from castform.stuck import Place, find_standing_place
from castform.testing.conformance.rule import RuleTimeoutError

AGAIN_SECONDS = 7.0
"""Between interrupts. The first one cancels what is awaited, which may take `CANCEL_GRACE_SECONDS` to end."""
SOON_SECONDS = 0.5
"""The same, where the environment's code holds the thread: it hears of no cancellation."""


@contextlib.contextmanager
def limit_time(seconds: float, *, called_from: str) -> Iterator[None]:
    """Raise RuleTimeoutError when the block, in the file `called_from`, is not done after so many seconds.

    It is interrupted as Ctrl-C interrupts a program: awaited work is cancelled, and when that does
    not end it, whatever runs or sleeps raises KeyboardInterrupt. That is possible in the main
    thread only; in another one there is no limit. A real Ctrl-C stays what it is.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, as in a background job of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    limit = _Limit(seconds, called_from)
    try:
        try:
            limit.start()
            yield
        finally:
            limit.end()
    except BaseException:  # whatever the interrupt became on its way
        limit.end()  # it may have come just before the first one
        if not limit.passed:
            raise
    finally:
        if before is not signal.default_int_handler:
            signal.signal(signal.SIGINT, before)
    if limit.passed:
        raise RuleTimeoutError(seconds, limit.place)


class _Limit:
    """Interrupts the thread that made it, again and again, once the time is over."""

    def __init__(self, seconds: float, called_from: str) -> None:
        self.passed = False
        self.place: Place | None = None
        """Where the environment's code stood then, if it ran."""
        self._seconds = seconds
        self._called_from = called_from
        self._ident = threading.get_ident()
        self._ended = threading.Event()
        self._sending = threading.Lock()
        self._watch = threading.Thread(target=self._run, name="rule-limit", daemon=True)

    def start(self) -> None:
        """Count from here. What comes after is interrupted, be it the end of this."""
        self._watch.start()

    def end(self) -> None:
        """Send no more interrupts; when this returns, all that were sent have arrived."""
        while True:
            try:
                with self._sending:
                    self._ended.set()
                self._watch.join()
                return
            except KeyboardInterrupt:
                if not self.passed:
                    raise

    def _run(self) -> None:
        if self._ended.wait(self._seconds):
            return
        self.place = self._find_place()
        while not self._ended.is_set():
            with self._sending:
                if self._ended.is_set():
                    return
                self.passed = True
                signal.pthread_kill(self._ident, signal.SIGINT)
            if not self._ended.wait(SOON_SECONDS) and self._find_place() is None:
                self._ended.wait(AGAIN_SECONDS - SOON_SECONDS)

    def _find_place(self) -> Place | None:
        return find_standing_place(self._ident, called_from=self._called_from)
