"""Environment code that holds the event loop for ever: end the process, and say where it stands."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import itertools
import os
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import benchmax
import castform
from castform.safe_text import safe_text

EXIT_STUCK = 1
LOOK_SECONDS = 0.5
LAST_RESORT_SECONDS = 3.0
"""Beyond the limit: code that keeps the interpreter's lock also keeps the watching thread from speaking."""
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_LIBRARY = str(Path(sysconfig.get_paths()["stdlib"]))
_HOSTS = tuple(str(Path(str(package.__file__)).parent) for package in (benchmax, castform))


class Place(NamedTuple):
    """A line that a thread stands at."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.function} ({Path(self.file).name}:{self.line})"


def find_place(standing: str) -> Place | None:
    """Return the innermost line of the main thread that is the environment's, or a library's that it calls.

    `standing` is what faulthandler writes, the main thread last.
    """
    lines = standing.rpartition("Thread 0x")[2].splitlines()
    matches = [match for line in lines if (match := _FRAME.match(line))]
    return _pick(Place(match["file"], int(match["line"]), match["function"]) for match in matches)


def find_standing_place(
    ident: int, *, passed: Iterable[str] = (), called_from: str | None = None
) -> Place | None:
    """Return the innermost line of a running thread that is the environment's, or a library's that it calls.

    Lines of the packages in `passed` are passed over: they do their work for somebody else. What
    called the code in the file `called_from` is no environment's.
    """
    folders = tuple(f"{os.sep}{package}{os.sep}" for package in passed)
    places = itertools.takewhile(lambda place: place.file != called_from, _walk(ident))
    return _pick(place for place in places if not any(name in place.file for name in folders))


@contextlib.contextmanager
def end_when_stuck(limit_seconds: float) -> Iterator[None]:
    """End the process with exit 1 when the running event loop does not answer for `limit_seconds`.

    The message names the line that the loop's thread stands at. Where that line keeps even other
    threads from running (one long regex), the message is the interpreter's own, with every thread.
    """
    watch = _Watch(asyncio.get_running_loop(), limit_seconds)
    thread = threading.Thread(target=watch.run, name="stuck-watch", daemon=True)
    watch.answer()
    thread.start()
    try:
        yield
    finally:
        watch.ended.set()
        thread.join()
        faulthandler.cancel_dump_traceback_later()


class _Watch:
    def __init__(self, loop: asyncio.AbstractEventLoop, limit_seconds: float) -> None:
        self.ended = threading.Event()
        self._loop = loop
        self._limit_seconds = limit_seconds
        self._ident = threading.get_ident()
        self._answered = time.monotonic()

    def answer(self) -> None:
        """Give a sign of life; runs on the loop."""
        self._answered = time.monotonic()
        faulthandler.dump_traceback_later(
            self._limit_seconds + LAST_RESORT_SECONDS, exit=True, file=sys.__stderr__ or sys.stderr
        )

    def run(self) -> None:
        while not self.ended.wait(LOOK_SECONDS):
            silent = time.monotonic() - self._answered
            if silent >= self._limit_seconds:
                self._end(silent)
            with contextlib.suppress(RuntimeError):  # the loop was closed under the watch
                self._loop.call_soon_threadsafe(self.answer)

    def _end(self, silent: float) -> None:
        place = find_standing_place(self._ident)
        where = "" if place is None else f": it stands at {place}"
        sys.stderr.write(
            safe_text(
                f"error: the environment has held the event loop for {silent:.0f} s{where}\n\nhint: bound what "
                "it computes, or await what it waits for; `castform env certify` looks for this\n"
            )
        )
        sys.stderr.flush()
        os._exit(EXIT_STUCK)


def _walk(ident: int) -> Iterator[Place]:
    frame = sys._current_frames().get(ident)
    while frame is not None:
        yield Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back


def _pick(places: Iterable[Place]) -> Place | None:
    return next((place for place in places if not _is_ours(place.file)), None)


def _is_ours(file: str) -> bool:
    if file.startswith(("<", *_HOSTS)):
        return True
    return file.startswith(_LIBRARY) and "site-packages" not in file
