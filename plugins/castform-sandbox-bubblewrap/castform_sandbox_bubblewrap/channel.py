"""The host's side of the socket to a box's first process.

What comes over it was written inside the box: it is plain text of bounded length, never trusted to be
well formed. When it closes, the box is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform.sandbox.errors import SandboxGoneError

_PACKET_BYTES = 1 << 16
_PAUSE_SECONDS = 0.005

Order = Mapping[str, Any]  # Any: what marshal takes


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What the first process said to an order."""

    kind: str
    """`exit`, `done`, `port` or `failed`."""
    words: str

    @property
    def number(self) -> int | None:
        """Return the number that the words begin with."""
        first = self.words.partition(" ")[0]
        return int(first) if first.isascii() and first.isdigit() and len(first) < 10 else None


class Channel:
    """Sends orders and hands out replies. Belongs to the event loop it was made in."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        link.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._number = 0
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.gone = asyncio.Event()
        self.reason: str | None = None
        """Which limit the box passed, where that ended it."""
        self.explain: Callable[[], str] = lambda: "the sandbox is gone"
        self._listeners: list[socket.socket] = []
        self._loop.add_reader(link.fileno(), self._receive)

    def next_number(self) -> int:
        """Return a new order's number."""
        self._number += 1
        return self._number

    async def post(
        self, order: Order, descriptors: Sequence[int] = (), *, number: int
    ) -> asyncio.Future[Reply]:
        """Send an order and return what will have the reply. The box has the descriptors then; ours stay open."""
        waiting: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting[number] = waiting
        data = marshal.dumps({**order, "number": number})
        while not self.gone.is_set():
            try:
                socket.send_fds(self._link, [data], list(descriptors))
                return waiting
            except BlockingIOError:
                await asyncio.sleep(_PAUSE_SECONDS)
            except OSError:
                self._end()
        self.forget(number)
        raise SandboxGoneError(self.explain())

    def forget(self, number: int) -> None:
        """Take no reply to an order any more."""
        waiting = self._waiting.pop(number, None)
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.exception()  # it has been looked at, or nobody will

    def take_listener(self) -> socket.socket | None:
        """Return the listening socket that came last; None where none came."""
        return self._listeners.pop() if self._listeners else None

    def close(self) -> None:
        """Close the socket, which ends the box."""
        self._end()

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._link, _PACKET_BYTES, 4)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        self._keep_listeners(descriptors)
        if not data:
            self._end()
            return
        number, _, rest = data.decode("utf-8", "replace").partition(" ")
        kind, _, words = rest.partition(" ")
        if kind == "ready":
            if not self.ready.done():
                self.ready.set_result(None)
        elif kind == "over":
            self.reason = words[:200]
        elif number.isascii() and number.isdigit() and len(number) < 16:
            waiting = self._waiting.get(int(number))
            if waiting is not None and not waiting.done():
                waiting.set_result(Reply(kind=kind, words=words))

    def _keep_listeners(self, descriptors: Sequence[int]) -> None:
        """Keep what is a listening TCP socket; anything else that a box hands out is closed."""
        for descriptor in descriptors:
            try:
                found = socket.socket(fileno=descriptor)
            except OSError:
                os.close(descriptor)
                continue
            with contextlib.suppress(OSError):
                listening = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if found.family == socket.AF_INET and found.type == socket.SOCK_STREAM and listening:
                    found.set_inheritable(False)
                    self._listeners.append(found)
                    continue
            found.close()

    def _end(self) -> None:
        if self.gone.is_set():
            return
        self.gone.set()
        self._loop.remove_reader(self._link.fileno())
        self._link.close()
        for listener in self._listeners:
            listener.close()
        if not self.ready.done():
            self.ready.set_exception(SandboxGoneError("the first process ended before it was ready"))
            self.ready.exception()  # whoever waits for it gets it; nobody has to
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(SandboxGoneError(self.explain()))
