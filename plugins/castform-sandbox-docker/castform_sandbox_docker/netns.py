"""A listening socket inside a box's network, made from outside: no program of the image is needed."""

from __future__ import annotations

import ctypes
import os
import socket
import threading

from castform.sandbox.errors import SandboxError

_CLONE_NEWNET = 0x40000000
BACKLOG = 128


def listen_inside(init: int) -> socket.socket:
    """Return a socket that listens on the loopback of a process's network, on a port of its own.

    A thread enters that network, makes the socket and ends: nothing else of this process is ever
    in it. Needs root. SandboxError where the kernel refuses.
    """
    made: list[socket.socket] = []
    faults: list[OSError] = []

    def enter() -> None:
        try:
            enter_network(init)
            made.append(make_listener())
        except OSError as error:
            faults.append(error)

    thread = threading.Thread(target=enter, name="castform-netns", daemon=True)
    thread.start()
    thread.join()
    if faults:
        raise SandboxError(
            f"no socket can be made in the box's network: {faults[0].strerror}",
            hint="set endpoint = 'socket' for the docker provider",
        ) from faults[0]
    return made[0]


def enter_network(pid: int) -> None:
    """Move the calling thread into the network of a process. OSError where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)


def make_listener() -> socket.socket:
    """Return a socket that listens on the loopback of the network that the thread is in."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.bind(("127.0.0.1", 0))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
