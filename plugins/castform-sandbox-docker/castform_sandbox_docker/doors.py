"""Doors: addresses on a box's loopback behind which something of castform listens outside.

Two ways, same result. `namespace`: the listening socket itself is made inside the box's network.
`socket`: a Unix socket in a mounted folder, and a forwarder that runs in the box.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from castform.sandbox.errors import SandboxError, UsageError
from castform_sandbox_docker import netns
from castform_sandbox_docker.commands import Commands, Running
from castform_sandbox_docker.forwarder import PROGRAMS, make_command
from castform_sandbox_docker.life import Life

Way = Literal["namespace", "socket"]
INSIDE = "/run/castform"
"""Where the folder with the sockets is mounted in a box."""


@dataclass(kw_only=True, eq=False)
class Door:
    """One address. Whoever serves on `listening` owns it."""

    listening: socket.socket
    port: int
    path: Path | None = None
    forwarder: Running | None = None

    @property
    def root_url(self) -> str:
        """The address for programs in the box."""
        return f"http://127.0.0.1:{self.port}"


class Doors:
    """Makes the doors of one box."""

    def __init__(self, life: Life, commands: Commands, *, way: Way, folder: Path | None) -> None:
        """`folder`: on this machine, mounted at INSIDE; None where nothing is mounted."""
        self._life = life
        self._commands = commands
        self._way = way
        self._folder = folder
        self._open: list[Door] = []
        self._made = 0

    async def open(self) -> Door:
        """Make a door. UsageError where neither way works for this box."""
        self._life.check()
        view = self._life.view
        if self._way == "namespace" and view is not None:
            await self._life.look()
            listening = netns.listen_inside(view.init)
            if not view.is_running():  # then its number may have been another process's already
                listening.close()
                await self._life.look()
            door = Door(listening=listening, port=listening.getsockname()[1])
        else:
            door = await self._open_by_socket()
        self._open.append(door)
        return door

    async def _open_by_socket(self) -> Door:
        if self._folder is None:
            raise UsageError(
                "no model can be made reachable from a box of an engine on another machine",
                hint="use the engine of this machine, through its Unix socket",
            )
        self._made += 1
        path = self._folder / f"{self._made}.sock"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(os.fspath(path))
            path.chmod(0o666)
            listening.listen(netns.BACKLOG)
            forwarder, port = await self._forward(path, 0)
        except BaseException as error:
            listening.close()
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                self._life.check()  # a box that is gone has no folder any more
                raise SandboxError(
                    f"no socket can be made at {path}: {error.strerror or error}",
                    hint="make room there, or set TMPDIR to a folder with a shorter path",
                ) from error
            raise
        return Door(listening=listening, port=port, path=path, forwarder=forwarder)

    async def _forward(self, path: Path, port: int) -> tuple[Running, int]:
        try:
            running, line = await self._commands.launch(make_command(f"{INSIDE}/{path.name}", port))
        except SandboxError as error:
            self._life.check()
            raise SandboxError(
                f"no forwarder runs in the box, so the model is not reachable from it: {error}",
                hint=f"the image needs one of {', '.join(PROGRAMS)}; as root beside the engine none is needed",
            ) from error
        return running, int(line)

    async def reopen(self) -> None:
        """Start the forwarders anew, on their ports, after everything in the box was killed."""
        for door in self._open:
            if door.forwarder is not None and door.path is not None:
                await self._commands.stop(door.forwarder)
                door.forwarder, _ = await self._forward(door.path, door.port)

    async def close(self, door: Door) -> None:
        """Take a door away; its socket is closed by whoever serves on it."""
        if door in self._open:
            self._open.remove(door)
        if door.forwarder is not None:
            await self._commands.stop(door.forwarder)
        if door.path is not None:
            door.path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove what the doors left on this machine, when the box is gone."""
        self._open.clear()
        if self._folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._folder)
