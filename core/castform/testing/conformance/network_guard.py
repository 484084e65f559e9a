"""Refuse every connection that does not stay on this machine, and remember who asked."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "")


class NetworkRefusedError(ConnectionRefusedError):
    """What code meets that reaches for the network under the guard."""

    def __init__(self, place: str) -> None:
        super().__init__(errno.ECONNREFUSED, f"the conformance suite has no network: {place} was refused")


@dataclass(slots=True)
class NetworkGuard:
    """What was asked for under the guard."""

    refused: list[str] = field(default_factory=list)
    """`host:port`, or a name to look up, in order and once each."""

    def check(self, place: str) -> None:
        """Note it and raise NetworkRefusedError."""
        if place not in self.refused:
            self.refused.append(place)
        raise NetworkRefusedError(place)


@contextmanager
def guard_network() -> Iterator[NetworkGuard]:
    """Let sockets reach loopback and Unix addresses alone until the block ends, in every thread."""
    guard = NetworkGuard()

    class Guarded(_Patches):
        def connect(self, sock: socket.socket, address: Any) -> None:
            guard_address(guard, sock, address)
            _plain_connect(sock, address)

        def connect_ex(self, sock: socket.socket, address: Any) -> int:
            guard_address(guard, sock, address)
            return _plain_connect_ex(sock, address)

        def sendto(self, sock: socket.socket, *args: Any) -> int:
            guard_address(guard, sock, args[-1])
            return _plain_sendto(sock, *args)

        def getaddrinfo(self, host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_local(_text(host)):
                guard.check(f"{_text(host)}:{_text(port)}" if port else _text(host))
            return _plain_getaddrinfo(host, port, *args, **kwargs)

    with Guarded().in_place():
        yield guard


_plain_connect = socket.socket.connect
_plain_connect_ex = socket.socket.connect_ex
_plain_sendto = socket.socket.sendto
_plain_getaddrinfo = socket.getaddrinfo


class _Patches:
    """Stands in for the ways out of the `socket` module, and puts back what was there."""

    METHODS = ("connect", "connect_ex", "sendto")

    @contextmanager
    def in_place(self) -> Iterator[None]:
        own = {name: vars(socket.socket).get(name) for name in self.METHODS}
        lookup = socket.getaddrinfo
        for name in self.METHODS:
            setattr(socket.socket, name, self._method(name))
        socket.getaddrinfo = self.getaddrinfo  # type: ignore[attr-defined]  # the subclass has it
        try:
            yield
        finally:
            socket.getaddrinfo = lookup
            for name, method in own.items():
                if method is None:
                    delattr(socket.socket, name)
                else:
                    setattr(socket.socket, name, method)

    def _method(self, name: str) -> Any:
        guarded = getattr(self, name)
        return lambda sock, *args: guarded(sock, *args)


def guard_address(guard: NetworkGuard, sock: socket.socket, address: Any) -> None:
    """Refuse an address of the internet families that is not this machine's."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return
    host = _text(address[0])
    if not is_local(host):
        guard.check(f"{host}:{address[1]}")


def is_local(host: str) -> bool:
    """Say whether a host name or address is this machine's loopback, or names none."""
    plain = host.lower().rstrip(".")
    return plain in LOCAL_NAMES or plain.startswith("127.") or plain in ("::1", "0.0.0.0", "::")


def _text(host: Any) -> str:  # Any: sockets take str, bytes and None
    if host is None:
        return ""
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
