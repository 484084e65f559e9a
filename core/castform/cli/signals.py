"""Signals that end a command, for commands that clean up behind themselves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """SIGTERM and a terminal that closes are an interrupt, as Ctrl-C is; a second one ends the process.

    What is ignored stays ignored (nohup). Outside the main thread, where Python delivers no
    signals, nothing is installed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    ours = [number for number, handler in before.items() if handler is signal.SIG_DFL]

    def on_signal(number: int, frame: FrameType | None) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    for number in ours:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
