"""Commands of one box: started by the engine, killed with everything they started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform.sandbox.contract import ExecResult
from castform.sandbox.errors import (
    ExecTimeoutError,
    MissingError,
    SandboxError,
    SandboxGoneError,
)
from castform.sandbox.teardown import finish
from castform_sandbox_docker.attach import Attached, StartRefusedError, attach
from castform_sandbox_docker.host_view import HostView, read_tick
from castform_sandbox_docker.inner_view import InnerView
from castform_sandbox_docker.life import Life
from castform_sandbox_docker.outcomes import explain_start, is_users_fault, make_result
from castform_sandbox_docker.processes import MARKER, Process, find_left_running, find_own

_LEADER_AFTER_SECONDS = 0.1
"""Only a command that runs longer is watched by its first process."""
_QUIET_SECONDS = 0.25
_LONGEST_WAIT_SECONDS = 2.0
"""For output after the first process has ended, while a child holds it open."""
_SOON_SECONDS = 0.05
_ENGINE_SECONDS = 30.0
"""For output that only the engine still has: on a busy machine it is late."""
_START_SECONDS = 10.0
_KILLED = 137


@dataclass(kw_only=True, eq=False)
class Running:
    """A command that runs."""

    marker: str
    since: int = 0
    """The tick of its start; 0 where ticks are not to be had."""
    exec_id: str | None = None
    sent: bool = False
    """Whether the engine was told to start it."""
    attached: Attached | None = None
    met: set[str] = field(default_factory=set)
    """Markers of commands that ran at some time while it did."""


class Commands:
    """Starts, follows and kills the commands of one box."""

    def __init__(self, life: Life, *, user: str) -> None:
        """`user`: whose commands they are unless it is said."""
        self._life = life
        self._engine = life.engine
        self._user = user
        self._running: dict[str, Running] = {}
        self._began = read_tick() if life.view is not None else 0
        self._oom_kills = 0

    async def run(
        self,
        command: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        user: str | None,
        timeout_seconds: float | None,
        stdin: bytes,
        max_output_bytes: int,
    ) -> ExecResult:
        """Run a command to its end, as `Sandbox.exec` promises."""
        began = asyncio.get_running_loop().time()
        oom_kills = self._count_oom_kills()
        with self._registered() as running:
            try:
                async with asyncio.timeout(timeout_seconds) as limit:
                    try:
                        exec_id = await self._create(running, command, cwd, env, user, bool(stdin))
                        attached = await self._start(running, exec_id, max_output_bytes)
                    except StartRefusedError as refusal:
                        return await self._refuse(refusal)
                    said = await self._follow(running, attached, exec_id, stdin)
            except TimeoutError:
                if not limit.expired():
                    raise
                await finish(self.kill(running))
                self._life.check()
                result = make_result(running.attached, _KILLED, began)
                raise ExecTimeoutError(
                    f"{command[0]} took longer than {timeout_seconds} s and was killed with all it started",
                    result=result,
                    hint="give it a longer timeout_seconds",
                ) from None
            except asyncio.CancelledError:
                await finish(self.kill(running))
                raise
        return await self._conclude(attached, said, began, oom_kills)

    async def launch(self, command: Sequence[str]) -> tuple[Running, str]:
        """Start a program of castform's own as root; return its handle and the first line it writes.

        SandboxError when it ends before it has written one, with its exit code in the message.
        """
        running = self._register()
        try:
            running.exec_id = await self._create(running, command, "/", {}, "0", False)
            attached = await self._start(running, running.exec_id, 1 << 16)
            reading = asyncio.create_task(attached.read())
            try:
                while not reading.done() and b"\n" not in attached.stdout.tail:
                    await asyncio.wait({reading}, timeout=0.01)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            line, newline, _ = attached.stdout.tail.partition(b"\n")
            if not newline:
                said = await self._inspect(running.exec_id)
                words = (
                    (attached.stderr.tail or attached.stdout.tail).decode("utf-8", "replace").strip()[-500:]
                )
                raise SandboxError(f"a program of castform's own ended with {said['ExitCode']}: {words}")
        except BaseException as error:
            await finish(self.stop(running))
            if isinstance(error, StartRefusedError):
                await self._life.look()
                raise SandboxError(f"a program of castform's own was not started: {error}") from error
            raise
        return running, line.decode("utf-8", "replace")

    async def stop(self, running: Running) -> None:
        """End a program that `launch` started."""
        try:
            with contextlib.suppress(SandboxGoneError):
                await self.kill(running)
        finally:
            self._unregister(running)

    def drop_all(self) -> None:
        """Let go of what is still read, when the box is gone."""
        for running in self._running.values():
            if running.attached is not None:
                running.attached.close()

    async def end_all(self) -> None:
        """Kill everything that commands left running. SandboxGoneError where the box had to be killed for it."""

        def choose(processes: list[Process], init: int) -> set[int]:
            return find_left_running(processes, init=init, since=self._began)

        view = self._life.view
        if view is not None:
            ended = await asyncio.to_thread(view.kill, lambda found: choose(found, view.init))
        else:
            ended = await InnerView(self._life).kill(lambda found: choose(found, 1))
        if not ended:
            await self._life.end("its processes could not be ended in any other way")
        self._life.check()

    async def kill(self, running: Running) -> None:
        """Kill a command and all it started; where that does not work, the whole box."""
        if not running.sent or running.exec_id is None:
            return
        try:
            leader = await self._find_leader(running.exec_id)
            view = self._life.view
            if view is not None:
                ended = await asyncio.to_thread(view.kill, self._make_choice(running, view.init, leader))
            else:
                ended = await InnerView(self._life).kill(self._make_choice(running, 1, None))
        except SandboxGoneError:
            return
        if not ended:
            await self._life.end("a command could not be ended in any other way")

    def _make_choice(
        self, running: Running, init: int, leader: int | None
    ) -> Any:  # Any: one of two callables
        def choose(processes: list[Process]) -> set[int]:
            since = running.since or min(
                (process.started for process in processes if process.marker == running.marker),
                default=1 << 62,
            )
            running.since = since
            return find_own(
                processes, init=init, marker=running.marker, leader=leader, since=since, others=running.met
            )

        return choose

    @contextlib.contextmanager
    def _registered(self) -> Any:  # Any: contextmanager's own type
        running = self._register()
        try:
            yield running
        finally:
            self._unregister(running)

    def _register(self) -> Running:
        running = Running(marker=secrets.token_hex(8))
        for other in self._running.values():
            other.met.add(running.marker)
            running.met.add(other.marker)
        self._running[running.marker] = running
        return running

    def _unregister(self, running: Running) -> None:
        if running.attached is not None:
            running.attached.close()
        self._running.pop(running.marker, None)

    async def _create(
        self,
        running: Running,
        command: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str],
        user: str | None,
        with_stdin: bool,
    ) -> str:
        from docker.errors import APIError

        try:
            made = await self._life.call(
                lambda client: client.exec_create(
                    self._life.container_id,
                    list(command),
                    stdin=with_stdin,
                    user=self._user if user is None else user,
                    environment={**env, MARKER: running.marker},
                    workdir=cwd,
                )
            )
        except APIError as error:
            raise StartRefusedError(500, str(error.explanation or error)) from error
        running.exec_id = str(made["Id"])
        return running.exec_id

    async def _start(self, running: Running, exec_id: str, max_output_bytes: int) -> Attached:
        if self._life.view is not None:
            running.since = read_tick() + 1
        running.sent = True
        try:
            running.attached = await attach(self._engine, exec_id, max_output_bytes=max_output_bytes)
        except MissingError as error:
            await self._life.look()
            raise SandboxGoneError(
                f"the sandbox {self._life.name} is gone: {error}", hint=error.hint
            ) from error
        return running.attached

    async def _refuse(self, refusal: StartRefusedError) -> ExecResult:
        """Say what it means that the engine did not start a command."""
        await self._life.look()
        if is_users_fault(refusal.message):
            return ExecResult(exit_code=126, stderr=refusal.message.encode())
        raise SandboxError(f"the command was not started: {refusal.message}")

    async def _follow(
        self, running: Running, attached: Attached, exec_id: str, stdin: bytes
    ) -> Mapping[str, Any]:  # Any: JSON of the engine
        """Read a command's output until its first process has ended; return what the engine says of it."""
        tasks = [asyncio.create_task(attached.read())]
        reading = tasks[0]
        view = self._life.view
        leader = None
        if stdin:
            tasks.append(asyncio.create_task(attached.write(stdin)))
        if view is not None:
            leader = asyncio.create_task(self._wait_leader(exec_id, view))
            tasks.append(leader)
        try:
            await asyncio.wait(
                {reading} | ({leader} if leader else set()), return_when=asyncio.FIRST_COMPLETED
            )
            if not reading.done():
                await self._wait_rest(running, attached, reading)
            said = await self._inspect(exec_id)
            pause = 0.01
            while said["Running"] or said["ExitCode"] is None:  # it closed its output and goes on
                if leader is not None and not leader.done():
                    await leader
                else:
                    await asyncio.sleep(pause)
                    pause = min(0.5, 2 * pause)
                said = await self._inspect(exec_id)
            return said
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_rest(self, running: Running, attached: Attached, reading: asyncio.Task[None]) -> None:
        """Wait for what an ended process wrote: to the end where none that it started can hold it open."""
        view = self._life.view
        done, _ = await asyncio.wait({reading}, timeout=_SOON_SECONDS)
        if done:
            return
        if view is not None:
            choose = self._make_choice(running, view.init, None)
            if not await asyncio.to_thread(lambda: choose(view.list_processes())):
                await asyncio.wait({reading}, timeout=_ENGINE_SECONDS)
                return
        await _wait_quiet(attached, reading)

    async def _wait_leader(self, exec_id: str, view: HostView) -> None:
        """Wait until a command's first process has ended."""
        await asyncio.sleep(_LEADER_AFTER_SECONDS)
        said = await self._inspect(exec_id)
        while not said["Pid"] and said["ExitCode"] is None:
            await asyncio.sleep(_LEADER_AFTER_SECONDS)
            said = await self._inspect(exec_id)
        if not said["Running"]:
            return
        try:
            handle = os.pidfd_open(said["Pid"])
        except OSError:
            return
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        try:
            if said["Pid"] in view.groups.pids():
                loop.add_reader(handle, ended.set)
                await ended.wait()
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    async def _find_leader(self, exec_id: str) -> int | None:
        """Return the first process of a command as soon as there is one; None where it has ended."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _START_SECONDS
        while loop.time() < give_up:
            try:
                said = await self._inspect(exec_id)
            except SandboxGoneError:
                return None
            if said["Pid"] or said["ExitCode"] is not None:
                return int(said["Pid"]) or None
            await asyncio.sleep(0.02)
        return None

    async def _inspect(self, exec_id: str) -> Mapping[str, Any]:  # Any: JSON of the engine
        from docker.errors import APIError

        try:
            said: Mapping[str, Any] = await self._life.call(lambda client: client.exec_inspect(exec_id))
        except APIError as error:
            await self._life.look()
            raise SandboxError(f"the engine says of a command: {error.explanation}") from error
        return said

    async def _conclude(
        self, attached: Attached, said: Mapping[str, Any], began: float, oom_kills: int
    ) -> ExecResult:
        code = int(said["ExitCode"])
        if code == _KILLED or (self._life.view is not None and not self._life.view.is_running()):
            await self._look_twice()
        result = make_result(attached, code, began)
        if not said["Pid"]:
            return explain_start(result)
        if code == _KILLED and self._life.view is None:
            self._oom_kills = await InnerView(self._life).count_oom_kills()
        out_of_memory = self._count_oom_kills() > oom_kills
        return make_result(attached, code, began, out_of_memory=out_of_memory)

    async def _look_twice(self) -> None:
        """Look whether the box itself was killed: the engine may hear of the command's end first."""
        for pause in (0.0, 0.1, 0.3) if self._life.view is None else (0.0, 0.02):
            await asyncio.sleep(pause)
            await self._life.look()

    def _count_oom_kills(self) -> int:
        view = self._life.view
        return view.groups.count_oom_kills() if view is not None else self._oom_kills


async def _wait_quiet(attached: Attached, reading: asyncio.Task[None]) -> None:
    """Wait for the rest of what an ended process wrote, while a child of it holds the stream open."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _LONGEST_WAIT_SECONDS
    while loop.time() < give_up:
        seen = attached.reads
        done, _ = await asyncio.wait({reading}, timeout=_QUIET_SECONDS)
        if done or attached.reads == seen:
            return
