"""One box of the `process` provider: a folder, a mark on its processes, a watch on what they use."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from castform.sandbox.archive import explain_local, pack_path, unpack
from castform.sandbox.closing import Closing
from castform.sandbox.contract import (
    MAX_OUTPUT_BYTES,
    BoxRequest,
    ExecResult,
    Limits,
    ModelEndpoint,
    NetworkPolicy,
)
from castform.sandbox.errors import SandboxError, SandboxFileError, SandboxGoneError, UsageError
from castform.sandbox.process.files import make_file_error, read_regular, write_whole
from castform.sandbox.process.tree import (
    BOX_MARK,
    EXEC_MARK,
    can_find,
    find_members,
    kill_members,
    measure_members,
)
from castform.sandbox.relay import ModelRelay
from castform.sandbox.request import check_exec, check_path, check_size
from castform.sandbox.spawn import Leftovers, run_program
from castform.sandbox.trees import measure_tree, remove_tree

WATCH_SECONDS = 0.5
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEASURE_SHARE = 10.0
"""The folder's size is taken so seldom that it costs at most one part in this of the time."""
_LAUNCH = (
    'ulimit -c 0 2>/dev/null; ulimit -d "$1" 2>/dev/null; ulimit -f "$2" 2>/dev/null; '
    'cd -- "$3" || exit 126; unset OLDPWD; shift 3; exec "$@"'
)
"""Limits of one process are set by a shell that becomes the program: no code runs between fork and exec."""


class ProcessBox:
    """Programs of this machine in a folder of their own. Nothing is kept from them."""

    def __init__(
        self, id: str, folder: Path, request: BoxRequest, on_close: Callable[[ProcessBox], None]
    ) -> None:
        self.id = id
        self.provider = "process"
        self.notes: tuple[str, ...] = describe_gaps(request)
        self._folder = folder
        self._limits = request.limits
        self._workdir = request.workdir or str(folder / "work")
        self._env = {**_base_env(folder), **request.env, BOX_MARK: id}
        self._mark = f"{BOX_MARK}={id}"
        self._on_close = on_close
        self._leftovers = Leftovers()
        self._relay: ModelRelay | None = None
        self._gone: str | None = None
        self._closing = Closing(self._close)
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Make the folders and begin to watch. SandboxFileError where a folder cannot be made."""
        try:
            for place in (self._folder / "home", self._folder / "tmp", Path(self._workdir)):
                place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SandboxFileError(f"{error.filename}: {error.strerror}") from error
        self._watch = asyncio.create_task(self._watch_usage())

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
        self._check_open()
        check_exec(
            command,
            cwd=cwd,
            env=env,
            user=user,
            timeout_seconds=timeout_seconds,
            max_output_bytes=max_output_bytes,
        )
        check_user(user)
        _check_names({**self._env, **(env or {})})
        kilobytes = "unlimited" if self._limits.memory_mb is None else str(self._limits.memory_mb << 10)
        blocks = "unlimited" if self._limits.disk_mb is None else str(self._limits.disk_mb << 11)
        token = secrets.token_hex(8)
        try:
            result = await run_program(
                ["/bin/sh", "-c", _LAUNCH, "sh", kilobytes, blocks, cwd or self._workdir, *command],
                env={**self._env, **(env or {}), BOX_MARK: self.id, EXEC_MARK: token},
                kill=lambda pid: kill_members(f"{EXEC_MARK}={token}", root=pid),
                stdin=stdin,
                timeout_seconds=timeout_seconds,
                max_output_bytes=max_output_bytes,
                leftovers=self._leftovers,
            )
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            if error.errno == errno.E2BIG:
                return ExecResult(exit_code=126, stderr=f"{command[0]}: {error.strerror}\n".encode())
            raise SandboxError(f"this machine starts no program: {error.strerror or error}") from error
        self._check_open()  # what ended it may have ended the box
        return result

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        self._check_open()
        return await asyncio.to_thread(read_regular, path, max_bytes)

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        self._check_open()
        check_user(user)
        await asyncio.to_thread(write_whole, path, data, mode)

    async def upload(self, source: Path, target: str) -> None:
        self._check_open()
        place = Path(check_path(target))
        await asyncio.to_thread(_copy_in, source, place)

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> None:
        self._check_open()
        check_size("max_bytes", max_bytes)
        place = Path(check_path(source))
        await asyncio.to_thread(_copy_out, place, target, max_bytes)

    async def connect(self, endpoint: ModelEndpoint) -> ModelEndpoint:
        self._check_open()
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        relay = ModelRelay(endpoint)
        try:
            await relay.start(listening)
        except BaseException:
            listening.close()
            raise
        if self._gone is not None:  # it was closed meanwhile, and nobody else closes this relay
            await relay.aclose()
            self._check_open()
        earlier, self._relay = self._relay, relay
        if earlier is not None:
            await earlier.aclose()
        return relay.inside(f"http://127.0.0.1:{port}")

    async def set_network(self, policy: NetworkPolicy) -> None:
        self._check_open()
        if policy.mode != "public":
            raise UsageError(
                f"the process provider cannot set the network to {policy.mode!r}: its programs share this machine's",
                hint="use the docker or the bubblewrap provider",
            )

    async def end_processes(self) -> None:
        self._check_open()
        await kill_members(self._mark)

    async def close(self) -> None:
        await self._closing.finish()

    async def _close(self) -> None:
        self._gone = self._gone or "it was closed"
        if self._watch is not None:
            self._watch.cancel()
        ends = [] if self._relay is None else [self._relay.aclose()]
        [*faults] = await asyncio.gather(*ends, return_exceptions=True)
        await kill_members(self._mark)
        self._leftovers.close()
        await asyncio.to_thread(remove_tree, self._folder)
        self._on_close(self)
        for fault in faults:
            if fault is not None:
                raise fault

    def _check_open(self) -> None:
        if self._gone is None and not self._folder.exists():
            self._gone = "its folder was removed from outside"
        if self._gone is not None:
            raise SandboxGoneError(f"the sandbox {self.id} is gone: {self._gone}")

    async def _watch_usage(self) -> None:
        """End everything in the box once it uses more than its limits."""
        pause = disk_pause = WATCH_SECONDS
        loop = asyncio.get_running_loop()
        disk_due = loop.time()
        while self._gone is None:
            await asyncio.sleep(pause)
            began = loop.time()
            try:
                over = await asyncio.to_thread(_find_excess, self._mark, self._limits)
            except OSError:  # this process has no descriptor to spare just now
                continue
            if over is None and began >= disk_due and self._limits.disk_mb is not None:
                used = await asyncio.to_thread(measure_tree, self._folder, set())
                disk_pause = max(WATCH_SECONDS, _MEASURE_SHARE * (loop.time() - began))
                disk_due = loop.time() + disk_pause
                if used > self._limits.disk_mb << 20:
                    over = f"its files took more than the {self._limits.disk_mb} MiB of disk it may use"
            pause = max(WATCH_SECONDS, _MEASURE_SHARE * (loop.time() - began)) if over is None else 0.0
            if over is not None:
                self._gone = over
                await kill_members(self._mark)


def describe_gaps(request: BoxRequest) -> tuple[str, ...]:
    """Return what `process` does not honour of a request."""
    gaps = [
        "nothing is isolated: programs run as this user and reach the files and the network of this machine"
    ]
    if request.network.mode != "public":
        gaps.append(f"the network is public, not {request.network.mode!r}")
    if request.limits.cpus is not None:
        gaps.append(f"cpus = {request.limits.cpus:g} is not enforced")
    watched = [name for name in ("memory_mb", "pids", "disk_mb") if getattr(request.limits, name) is not None]
    if watched:
        gaps.append(f"{', '.join(watched)} are looked at twice a second, not enforced by the kernel")
    return tuple(gaps)


def check_user(user: str | None) -> None:
    """Raise UsageError for another user than the one who runs this."""
    if user is None or user == str(os.getuid()) or (user in ("root", "0") and os.getuid() == 0):
        return
    raise UsageError(
        f"the process provider runs everything as the user who started castform, not as {user!r}",
        hint="use the docker provider, or leave the user out",
    )


def _check_names(env: Mapping[str, str]) -> None:
    """Raise UsageError for a variable that the shell between a command and its box would drop."""
    odd = [name for name in env if _NAME.fullmatch(name) is None]
    if odd:
        raise UsageError(
            f"the process provider cannot set the variable {odd[0]!r}: its shell keeps letters, digits and _",
            hint="use the docker or the bubblewrap provider, or another name",
        )


def _find_excess(mark: str, limits: Limits) -> str | None:
    if not can_find() or (limits.pids is None and limits.memory_mb is None):
        return None
    members = find_members(mark)
    if limits.pids is not None and len(members) > limits.pids:
        return f"it had {len(members)} processes, more than the {limits.pids} it may have"
    if limits.memory_mb is not None and measure_members(members) > limits.memory_mb << 20:
        return f"it used more than the {limits.memory_mb} MiB of memory it may use"
    return None


def _base_env(folder: Path) -> dict[str, str]:
    """Return the variables of every program: nothing of this process's own but where programs are."""
    return {
        "PATH": os.environ.get("PATH") or os.defpath,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "LANG": "C.UTF-8",
    }


def _copy_in(source: Path, target: Path) -> None:
    with explain_local(source):
        is_folder = source.is_dir()
    if is_folder:
        with pack_path(source) as archive:
            unpack(archive, target, max_bytes=1 << 62)
        return
    with pack_path(source, name=target.name) as archive:
        unpack(archive, target.parent, max_bytes=1 << 62)


def _copy_out(source: Path, target: Path, max_bytes: int) -> None:
    try:
        _copy(source, target, max_bytes)
    except OSError as error:  # programs of the box go on changing what is copied
        raise make_file_error(str(source), error) from error


def _copy(source: Path, target: Path, max_bytes: int) -> None:
    if source.is_symlink() or not source.exists():
        raise SandboxFileError(f"{source} is {'a link' if source.is_symlink() else 'not there'}")
    if source.is_dir():
        with pack_path(source, max_bytes=max_bytes) as archive:
            unpack(archive, target, max_bytes=max_bytes)
        return
    data = read_regular(str(source), max_bytes)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    target.chmod(0o600 | source.stat().st_mode & 0o777)
