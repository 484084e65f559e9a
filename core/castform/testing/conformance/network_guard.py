"""Refuse every connection that does not stay on this machine, and remember who asked."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

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

    def refuse(self, place: str) -> NoReturn:
        """Note it and raise NetworkRefusedError."""
        if place not in self.refused:
            self.refused.append(place)
        raise NetworkRefusedError(place)


@contextmanager
def guard_network() -> Iterator[NetworkGuard]:
    """Let sockets reach loopback and Unix addresses alone until the block ends, in every thread."""
    guard = NetworkGuard()

    def connect(sock: socket.socket, address: Any) -> None:
        guard_address(guard, sock, address)
        _connect(sock, address)

    def connect_ex(sock: socket.socket, address: Any) -> int:
        guard_address(guard, sock, address)
        return _connect_ex(sock, address)

    def sendto(sock: socket.socket, *args: Any) -> int:
        guard_address(guard, sock, args[-1])
        return _sendto(sock, *args)

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_local(_text(host)):
            guard.refuse(f"{_text(host)}:{_text(port)}" if port else _text(host))
        return _getaddrinfo(host, port, *args, **kwargs)

    with (
        _in_place(socket.socket, "connect", connect),
        _in_place(socket.socket, "connect_ex", connect_ex),
        _in_place(socket.socket, "sendto", sendto),
        _in_place(socket, "getaddrinfo", getaddrinfo),
    ):
        yield guard


_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex
_sendto = socket.socket.sendto
_getaddrinfo = socket.getaddrinfo


@contextmanager
def _in_place(owner: Any, name: str, function: Any) -> Iterator[None]:
    """Set an attribute of the `socket` module or of its class until the block ends."""
    own = vars(owner).get(name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        if own is None:  # the class has it from its base
            delattr(owner, name)
        else:
            setattr(owner, name, own)


def guard_address(guard: NetworkGuard, sock: socket.socket, address: Any) -> None:
    """Refuse an address of the internet families that is not this machine's."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return
    host = _text(address[0])
    if not is_local(host):
        guard.refuse(f"{host}:{address[1]}")


def is_local(host: str) -> bool:
    """Say whether a host name or address is this machine's loopback, or names none."""
    plain = host.lower().rstrip(".")
    return plain in LOCAL_NAMES or plain.startswith("127.") or plain in ("::1", "0.0.0.0", "::")


def _text(host: Any) -> str:  # Any: sockets take str, bytes and None
    if host is None:
        return ""
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
