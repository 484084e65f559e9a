"""Starting a box's first process, watching it and ending it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from castform.sandbox.errors import SandboxGoneError, SandboxStartError
from castform.sandbox.teardown import finish
from castform.sandbox.trees import remove_tree
from castform_sandbox_bubblewrap import seccomp
from castform_sandbox_bubblewrap.channel import Channel
from castform_sandbox_bubblewrap.command import make_command
from castform_sandbox_bubblewrap.groups import kill_group, remove_groups
from castform_sandbox_bubblewrap.machine import Machine
from castform_sandbox_bubblewrap.place import BoxPlace

_END_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstProcess:
    """A box's first process and what it holds on the host."""

    process: subprocess.Popen[bytes]
    """bwrap, which ends with it."""
    descriptor: int
    """Of the first process itself, to kill it and nothing else."""
    pid: int
    channel: Channel
    place: BoxPlace
    groups: tuple[Path, ...]

    async def end(self, *, keep_root: Path | None = None) -> None:
        """End the box with all that is in it and remove what it held. Once.

        `keep_root`: where its root is moved to instead.
        """
        self.channel.close()
        await asyncio.to_thread(self._end, keep_root)

    def _end(self, keep_root: Path | None) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
        os.close(self.descriptor)
        for group in self.groups:
            kill_group(group)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        remove_groups(self.groups)
        if keep_root is not None:
            self.place.root.rename(keep_root)
        remove_tree(self.place.folder)


async def start_first_process(
    machine: Machine, place: BoxPlace, *, groups: Sequence[Path], shm_bytes: int | None
) -> FirstProcess:
    """Start it and return once it serves. SandboxStartError with what bwrap said; cancelled: it is dead.

    The groups and the place stay the caller's until it has returned.
    """
    with tempfile.TemporaryFile() as said, contextlib.ExitStack() as stack, contextlib.ExitStack() as theirs:
        host, box = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.callback(box.close)
        info_end, info_start = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, info_end)
        theirs.callback(os.close, info_start)
        passed = [box.fileno(), info_start]
        seccomp_end = None
        if machine.filtered:
            seccomp_end = _make_filter_file()
            stack.callback(os.close, seccomp_end)
            passed.append(seccomp_end)
        command = make_command(
            machine,
            place,
            link=box.fileno(),
            info=info_start,
            seccomp=seccomp_end,
            shm_bytes=shm_bytes,
        )
        spawning = asyncio.ensure_future(asyncio.to_thread(_spawn, command, passed, said))
        try:
            process = await asyncio.shield(spawning)
        except BaseException:
            host.close()  # by which a first process that comes up all the same ends
            await finish(_abandon(spawning))
            raise
        finally:
            theirs.close()  # else the end of the other side would not be seen
        channel = Channel(host)
        try:
            try:
                await channel.ready
            except SandboxGoneError:
                code = await asyncio.to_thread(process.wait)
                raise SandboxStartError(
                    f"the sandbox did not start: {_read_tail(said) or f'exit code {code}'}",
                    hint="`castform sandbox check bubblewrap` says what this machine lacks",
                ) from None
            pid = _read_pid(info_end)
            for group in groups:  # now: it is alone yet, and what it took to start is no part of the limits
                (group / "cgroup.procs").write_text(str(pid))
            return FirstProcess(
                process=process,
                descriptor=os.pidfd_open(pid),
                pid=pid,
                channel=channel,
                place=place,
                groups=tuple(groups),
            )
        except BaseException:
            channel.close()  # the first process, if it is there, ends by this
            _kill(process)
            raise


async def _abandon(spawning: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    with contextlib.suppress(OSError):
        _kill(await spawning)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill bwrap with the child that waits for its word to go on: alone, that one would wait for ever."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _spawn(command: Sequence[str], passed: Sequence[int], said: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(command),
        env={"PATH": os.environ.get("PATH", os.defpath)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=said,
        pass_fds=tuple(passed),
        start_new_session=True,
        cwd="/",
    )


def _make_filter_file() -> int:
    descriptor = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(descriptor, seccomp.make_filter())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_pid(descriptor: int) -> int:
    """Return the first process's id on the host, which bwrap wrote before it started."""
    data = os.read(descriptor, 4096)
    try:
        return int(json.loads(data)["child-pid"])
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxStartError(f"bwrap did not name the first process: {data!r}") from error


def _read_tail(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read()[-1000:].decode("utf-8", "replace").strip()
