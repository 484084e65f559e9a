"""One worker process as its host sees it: pipes that never block, and a way to end it for certain."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from castform.bundles.bounded_process import Finished
from castform.workers.calls import Call
from castform.workers.interpreter import Interpreter
from castform.workers.limits import WorkerLimits
from castform.workers.output import OutputCapture
from castform.workers.protocol import Frame, FrameReader, encode_frame

_CHUNK = 1 << 18
_MAX_READS = 16
"""Chunks taken at a time: one worker's flood leaves time for the others."""
_REAP_SECONDS = 5.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class WorkerProcess:
    """A started process. Everything here is called by the pool's thread only, except `kill`."""

    def __init__(self, name: str, interpreter: Interpreter, limits: WorkerLimits) -> None:
        """Start it. OSError when the interpreter cannot be run, ValueError for a NUL in its words."""
        self.name = name
        self.loaded = False
        """It has said what the environment is, and gives signs of life from then on."""
        self.asked_back = False
        """It is held up, and was asked for all that it has not begun."""
        self.calls: dict[int, Call] = {}
        self.replayed: set[tuple[str, str, int | None]] = set()
        """Datasets that it was told to make."""
        self.why: str | None = None
        """Why it was killed, or has to be."""
        self.place: str | None = None
        self.started = self._heard = time.monotonic()
        self._silent = self._stuck = 0.0
        self._frames = FrameReader()
        self._outgoing: deque[memoryview] = deque()
        self.output = OutputCapture(
            name, limit_bytes=limits.output_bytes, limit_seconds=limits.output_seconds
        )
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            requests, self.requests = os.pipe()
            theirs.callback(os.close, requests)
            ours.callback(os.close, self.requests)
            self.answers, answers = os.pipe()
            theirs.callback(os.close, answers)
            ours.callback(os.close, self.answers)
            self._process = subprocess.Popen(
                interpreter.command("castform.workers.main", str(requests), str(answers), str(os.getpid())),
                env=dict(interpreter.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(requests, answers),
                start_new_session=True,
            )
            ours.pop_all()
        assert self._process.stdout is not None
        self.printed = self._process.stdout.fileno()
        for descriptor in (self.requests, self.answers, self.printed):
            os.set_blocking(descriptor, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def load(self) -> int:
        """Rollouts that it has."""
        return sum(call.weight for call in self.calls.values())

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    def silent_seconds(self, now: float) -> float:
        """Return how long its event loop has not answered, as far as the host knows, since it had one."""
        return self._silent + (now - self._heard)

    def stuck_seconds(self, now: float) -> float:
        """Return for how long, besides, no model call and no rollout has come to an end there."""
        return self._stuck + (now - self._heard)

    def note_loaded(self, now: float) -> None:
        """Count its silence from here."""
        self.loaded, self._heard = True, now

    def note_alive(self, now: float) -> None:
        """Something came from its event loop, so it is not held up."""
        self._heard, self._silent, self._stuck = now, 0.0, 0.0

    def note_beat(self, frame: Frame, now: float) -> None:
        """Take a sign of life."""
        self._heard, self.place = now, frame["place"]
        self._silent, self._stuck = float(frame["silent"]), float(frame["stuck"])

    def send(self, message: Frame) -> None:
        """Queue a message and write as much as the pipe takes. FrameTooLargeError when it is too large."""
        self._outgoing.append(memoryview(encode_frame(message)))
        self.write()

    def write(self) -> None:
        """Write what waits; a pipe that is broken is found by reading."""
        while self._outgoing:
            data = self._outgoing[0]
            try:
                written = os.write(self.requests, data)
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                return
            if written == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = data[written:]

    def read(self) -> Iterator[Frame]:
        """Yield the messages that have come. EOFError at the end of the pipe, ProtocolError for junk."""
        for _ in range(_MAX_READS):
            try:
                data = os.read(self.answers, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                raise EOFError
            yield from self._frames.feed(data)

    def read_output(self, now: float) -> bool:
        """Take what it printed; False at the end of the pipe. Sets `why` for a flood."""
        for _ in range(_MAX_READS):
            try:
                data = os.read(self.printed, _CHUNK)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            if not self.output.add(data, now):
                self.why = self.why or "it flooded its output"
        return True

    def resident_bytes(self) -> int | None:
        """Return its resident memory; None where the system does not say."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]) * _PAGE_BYTES
        except (OSError, IndexError, ValueError):
            return None

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """End it and everything in its session, at once. May be called from any thread."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def bury(self) -> None:
        """Reap it after its end and close the pipes."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_SECONDS)
        os.close(self.requests)
        os.close(self.answers)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def describe_end(self) -> str:
        """Return why it is gone, in words, with the last that it printed."""
        code = self._process.returncode
        if self.why is not None:
            end = f"was killed: {self.why}"
        elif code is None:
            end = "did not end"
        else:
            end = Finished(ending="exit", code=code, output="").describe()
        last = self.output.last_lines()
        return f"the worker process {end}" + (f"; the last it printed: {last}" if last else "")
