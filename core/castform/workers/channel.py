"""The worker's end of the two pipes to its host."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

from castform.workers.protocol import Frame, FrameReader, encode_frame

_CHUNK = 1 << 16
PR_SET_PDEATHSIG = 1


class Channel:
    """Reads frames in one thread and writes them from any."""

    def __init__(self, requests: int, answers: int) -> None:
        """Take over two file descriptors; programs that the environment starts do not get them."""
        for descriptor in (requests, answers):
            os.set_inheritable(descriptor, False)
        self._requests = requests
        self._answers = answers
        self._writing = threading.Lock()
        self._frames = self._read()

    def send(self, message: Frame) -> None:
        """Write one message. FrameTooLargeError when it does not fit; the process ends without a host."""
        data = memoryview(encode_frame(message))
        with self._writing:
            try:
                while data:
                    data = data[os.write(self._answers, data) :]
            except OSError:
                end_process()

    def receive(self) -> Frame:
        """Return the next message. The process ends when the host has."""
        message = next(self._frames, None)
        if message is None:
            end_process()
        return message

    def start(self, on_message: Callable[[Frame], None]) -> None:
        """Read in a thread of its own from now on."""

        def read() -> None:
            while True:
                on_message(self.receive())

        threading.Thread(target=read, name="castform-requests", daemon=True).start()

    def _read(self) -> Iterator[Frame]:
        reader = FrameReader()
        while True:
            try:
                data = os.read(self._requests, _CHUNK)
            except OSError:
                return
            if not data:
                return
            yield from reader.feed(data)


def end_process() -> NoReturn:
    """End this process and what it started in its session, at once: nobody is left to work for."""
    if os.getpid() == os.getpgid(0):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def die_with_parent(parent: int) -> None:
    """Have the kernel end this process when its parent ends, however that happens.

    The end of the request pipe says so too, but not to code that holds the interpreter's lock.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        end_process()
