"""A started box."""

from __future__ import annotations

import asyncio
import os
import posixpath
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from castform.sandbox.archive import pack_path, unpack
from castform.sandbox.contract import MAX_OUTPUT_BYTES, ExecResult, ModelEndpoint, NetworkPolicy
from castform.sandbox.errors import ExecTimeoutError, SandboxFileError, SandboxGoneError, UsageError
from castform.sandbox.relay import ModelRelay
from castform.sandbox.request import check_exec, check_mode, check_path, check_size, check_user
from castform.sandbox.teardown import finish
from castform_sandbox_bubblewrap.first_process import FirstProcess
from castform_sandbox_bubblewrap.groups import count_out_of_memory
from castform_sandbox_bubblewrap.network import BoxNetwork
from castform_sandbox_bubblewrap.runner import Runner

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHUNK = 1 << 20
_ROOT = frozenset({"", "0", "root", "0:0", "root:root", "0:root", "root:0"})


class BubblewrapBox:
    """Commands and files of one box, through its first process."""

    provider = "bubblewrap"

    def __init__(
        self,
        first: FirstProcess,
        *,
        env: Mapping[str, str],
        workdir: str = "/",
        user: str = "root",
        users: bool,
        rlimits: Mapping[str, int],
        notes: Sequence[str] = (),
    ) -> None:
        self._first = first
        self._channel = first.channel
        self._channel.explain = self._explain
        self._runner = Runner(first.channel, rlimits, first.groups)
        self._env = {"PATH": PATH, "HOSTNAME": "sandbox", **env}
        self._workdir = workdir
        self._user = user
        self._users = users
        self._notes = list(notes)
        self._background: set[asyncio.Task[ExecResult]] = set()
        self._relay: ModelRelay | None = None
        self._network = BoxNetwork(self._listen)
        self._closing: asyncio.Task[None] | None = None
        self.on_closed: Callable[[], None] = lambda: None
        """Called once when the box is closed."""

    @property
    def id(self) -> str:
        return self._first.place.id

    @property
    def notes(self) -> Sequence[str]:
        return [*self._notes, *self._network.notes]

    @property
    def pid(self) -> int:
        """The first process, as the host numbers it."""
        return self._first.pid

    async def exec(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_seconds: float | None = None,
        stdin: bytes = b"",
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> ExecResult:
        """Run a program to the end of its first process; see the contract."""
        self._check_open()
        check_exec(
            command,
            cwd=cwd,
            env=env,
            user=user,
            timeout_seconds=timeout_seconds,
            max_output_bytes=max_output_bytes,
        )
        variables = {**self._env, **self._network.env, **(env or {})}
        name = self._check_user(self._user if user is None else user)
        order = {
            "argv": list(command),
            "cwd": cwd or self._workdir,
            "env": variables,
            "user": name,
        }
        ended = await self._runner.run(
            order, stdin=stdin, max_output_bytes=max_output_bytes, timeout_seconds=timeout_seconds
        )
        if ended.refused:
            raise UsageError(f"the sandbox cannot run commands as {name!r}: {ended.refused}")
        if ended.timed_out:
            raise ExecTimeoutError(
                f"{command[0]!r} was not done after {timeout_seconds or 0:g} s and was killed with all it had started",
                result=ended.result,
                hint="give the command more timeout_seconds, or make it do less",
            )
        return ended.result

    def start_background(self, command: Sequence[str]) -> None:
        """Start a program that nobody waits for; it ends with the box."""
        task = asyncio.ensure_future(self.exec(command, max_output_bytes=0))
        self._background.add(task)
        task.add_done_callback(self._forget)

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        """Return a regular file, read inside the box."""
        self._check_path(path)
        check_size("max_bytes", max_bytes)
        result = await self._runner.call_files(
            "read", {"path": path, "max_bytes": max_bytes}, max_output_bytes=max(4096, max_bytes + 1)
        )
        if result.stdout_dropped or len(result.stdout) > max_bytes:
            raise SandboxFileError(f"{path} grew beyond the {max_bytes} bytes that are read")
        return result.stdout

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Write a whole file beside its place inside the box, and move it there."""
        self._check_path(path)
        check_mode(mode)
        check_user(user)
        name = None if user is None else self._check_user(user)
        await self._runner.call_files("write", {"path": path, "mode": mode, "user": name}, stdin=data)

    async def upload(self, source: Path, target: str) -> None:
        """Copy a file to `target`, or a folder's content into it."""
        self._check_path(target)
        single = not await asyncio.to_thread(source.is_dir)
        with tempfile.TemporaryFile() as archive:
            await asyncio.to_thread(_pack, source, posixpath.basename(target) if single else None, archive)
            await self.unpack(archive, posixpath.dirname(target) if single else target)

    async def unpack(
        self, archive: IO[bytes], target: str, *, owner: str | None = None, mode: int | None = None
    ) -> None:
        """Write what an archive holds below a folder; `owner`, `mode`: of all files in it, None: its own."""
        descriptor = os.open(f"/proc/self/fd/{archive.fileno()}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            await self._runner.call_files(
                "unpack", {"target": target, "owner": owner, "mode": mode}, stdin=descriptor
            )
        finally:
            os.close(descriptor)

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> None:
        """Copy a file, or a folder's content, to `target` outside."""
        self._check_path(source)
        check_size("max_bytes", max_bytes)
        kind = (await self._runner.call_files("kind", {"path": source})).stdout
        if kind == b"folder":
            await self._download(source, target, max_bytes)
            return
        await asyncio.to_thread(_make_way, source, target)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".castform-") as beside:
            await self._download(source, Path(beside), max_bytes)
            copied = Path(beside) / posixpath.basename(source)
            if copied.is_symlink() or not copied.is_file():
                raise SandboxFileError(f"{source} changed while it was copied")
            copied.replace(target)

    async def connect(self, endpoint: ModelEndpoint) -> ModelEndpoint:
        """Serve the model on a port of the box's own loopback."""
        listening, port = await self._listen()
        relay = ModelRelay(endpoint)
        try:
            await relay.start(listening)
            self._check_open()
        except BaseException:
            await relay.aclose()
            listening.close()
            raise
        before, self._relay = self._relay, relay
        if before is not None:
            await before.aclose()
        return relay.inside(f"http://127.0.0.1:{port}")

    async def set_network(self, policy: NetworkPolicy) -> None:
        """Change which hosts the box's proxy connects to."""
        self._check_open()
        await self._network.set_policy(policy)

    async def end_processes(self) -> None:
        """Kill all but the first process."""
        self._check_open()
        await finish(self._runner.ask({"do": "end"}))

    async def close(self, *, keep_root: Path | None = None) -> None:
        """End the box and all that is in it. `keep_root`: where its root is moved to, for a build."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(keep_root))
        await finish(_wait_for(self._closing))

    async def watch(self, *, memory_bytes: int | None, disk_bytes: int | None) -> None:
        """Have the first process look at limits that no group and no disk holds."""
        await self._runner.ask({"do": "watch", "memory_bytes": memory_bytes, "disk_bytes": disk_bytes})

    async def _close(self, keep_root: Path | None) -> None:
        relay, self._relay = self._relay, None
        try:
            if relay is not None:
                await relay.aclose()
            await self._network.aclose()
        finally:
            try:
                await self._first.end(keep_root=keep_root)
            finally:
                self._runner.close()
                self.on_closed()

    async def _download(self, source: str, target: Path, max_bytes: int) -> None:
        end, start = os.pipe2(os.O_CLOEXEC)
        reading = asyncio.ensure_future(asyncio.to_thread(_unpack, end, target, max_bytes))
        failure: SandboxFileError | None = None
        try:
            await self._runner.call_files("pack", {"source": source, "max_bytes": max_bytes}, stdout=start)
        except SandboxFileError as error:
            failure = error
        finally:  # whatever wrote into the pipe has ended, so the reader does
            await finish(asyncio.wait([reading]))
        too_much = reading.exception()
        if too_much is not None and (failure is None or "bytes" in str(too_much)):
            raise too_much
        if failure is not None:
            raise failure

    async def _listen(self) -> tuple[socket.socket, int]:
        self._check_open()
        reply = await self._runner.ask({"do": "listen"})
        listening, port = self._channel.take_listener(), reply.number
        if reply.kind != "port" or listening is None or port is None:
            raise SandboxGoneError(f"the sandbox cannot listen on its loopback: {reply.words[:200]}")
        listening.setblocking(False)
        return listening, int(listening.getsockname()[1])  # the reply may be that of another one who asked

    def _forget(self, task: asyncio.Task[ExecResult]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # the box may have gone before it

    def _check_open(self) -> None:
        if self._closing is not None or self._channel.gone.is_set():
            raise SandboxGoneError(self._explain())

    def _check_path(self, path: str) -> None:
        self._check_open()
        check_path(path)

    def _check_user(self, user: str) -> str:
        if user in _ROOT:
            return "root"
        if not self._users:
            raise UsageError(
                f"the sandbox cannot run commands as {user!r}: castform does not run as root here, so that a box has "
                "no user but one",
                hint="run castform as root, or use the docker provider",
            )
        return user

    def _explain(self) -> str:
        if self._closing is not None:
            return "the sandbox is closed"
        if self._channel.reason is not None:
            return f"the sandbox was ended: it used more than it may of {self._channel.reason}"
        if count_out_of_memory(self._first.groups):
            return "the sandbox is gone: it used all of its memory"
        return "the sandbox is gone: its first process was killed"


def _pack(source: Path, name: str | None, archive: IO[bytes]) -> None:
    with pack_path(source, name=name) as packed:
        while chunk := packed.read(_CHUNK):
            archive.write(chunk)
    archive.flush()


def _unpack(descriptor: int, target: Path, max_bytes: int) -> None:
    with os.fdopen(descriptor, "rb") as archive:
        unpack(archive, target, max_bytes=max_bytes)
        while archive.read(_CHUNK):  # what pads it, so that its writer ends well
            pass


def _make_way(source: str, target: Path) -> None:
    if target.is_dir():
        raise UsageError(f"{target} is a folder and {source} a file", hint="name the file to write")
    target.parent.mkdir(parents=True, exist_ok=True)


async def _wait_for(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)
