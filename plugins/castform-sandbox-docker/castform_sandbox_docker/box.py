"""One box: a container."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from castform.sandbox.closing import Closing
from castform.sandbox.contract import (
    MAX_OUTPUT_BYTES,
    BoxRequest,
    ExecResult,
    ModelEndpoint,
    NetworkPolicy,
)
from castform.sandbox.egress import EgressProxy, HostRules
from castform.sandbox.errors import MissingError, SandboxError, SandboxGoneError
from castform.sandbox.relay import ModelRelay
from castform.sandbox.request import check_exec
from castform.sandbox.teardown import finish
from castform_sandbox_docker.commands import Commands
from castform_sandbox_docker.disk import INTERVAL_SECONDS, describe_excess
from castform_sandbox_docker.doors import Door, Doors
from castform_sandbox_docker.files import Files
from castform_sandbox_docker.life import Life
from castform_sandbox_docker.network import PublicNetwork, move

_PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_NO_PROXY = "localhost,127.0.0.1,::1"


class DockerBox:
    """A started container. Made by the provider."""

    def __init__(
        self,
        *,
        life: Life,
        commands: Commands,
        doors: Doors,
        public: PublicNetwork,
        request: BoxRequest,
        notes: Sequence[str],
        measure: Callable[[], Awaitable[int]] | None,
        on_close: Callable[[DockerBox], None],
    ) -> None:
        """`measure` returns the bytes that the box has written; None: the kernel holds its disk limit."""
        self.id = life.name
        self.provider = "docker"
        self.notes = tuple(notes)
        self._life = life
        self._commands = commands
        self._doors = doors
        self._public = public
        self._request = request
        self._files = Files(life)
        self._on_close = on_close
        self._relay: tuple[ModelRelay, Door] | None = None
        self._proxy: tuple[EgressProxy, Door] | None = None
        self._closing = Closing(self._close)
        self._changing = asyncio.Lock()
        limit = request.limits.disk_mb
        self._watch = (
            asyncio.create_task(self._watch_disk(measure, limit << 20))
            if measure is not None and limit is not None
            else None
        )

    @property
    def container_id(self) -> str:
        """The engine's own name for the box."""
        return self._life.container_id

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
        self._life.check()
        check_exec(
            command,
            cwd=cwd,
            env=env,
            user=user,
            timeout_seconds=timeout_seconds,
            max_output_bytes=max_output_bytes,
        )
        return await self._commands.run(
            command,
            cwd=cwd if cwd is not None else self._request.workdir,
            env={**self._make_proxy_env(), **(env or {})},
            user=user,
            timeout_seconds=timeout_seconds,
            stdin=stdin,
            max_output_bytes=max_output_bytes,
        )

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        return await self._files.read(path, max_bytes)

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        await self._files.write(path, data, mode=mode, user=user)

    async def upload(self, source: Path, target: str) -> None:
        await self._files.upload(source, target)

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> None:
        await self._files.download(source, target, max_bytes)

    async def connect(self, endpoint: ModelEndpoint) -> ModelEndpoint:
        async with self._changing:
            door = await self._doors.open()
            relay = ModelRelay(endpoint)
            try:
                await relay.start(door.listening)
            except BaseException:
                door.listening.close()
                await finish(self._doors.close(door))
                raise
            if self._closing.begun:  # nobody else closes this relay
                await relay.aclose()
                raise SandboxGoneError(f"the sandbox {self.id} is gone: it was closed")
            earlier, self._relay = self._relay, (relay, door)
            if earlier is not None:
                await earlier[0].aclose()
                await self._doors.close(earlier[1])
            return relay.inside(door.root_url)

    async def set_network(self, policy: NetworkPolicy) -> None:
        async with self._changing:
            rules = HostRules.parse(policy.allowed_hosts) if policy.mode == "allowlist" else None
            await move(self._life, self._public, to_public=policy.mode == "public")
            if rules is None:
                await self._end_proxy()
            elif self._proxy is not None:
                self._proxy[0].rules = rules
                await self._proxy[0].end_connections()
            else:
                await self._start_proxy(rules)

    async def _start_proxy(self, rules: HostRules) -> None:
        door = await self._doors.open()
        proxy = EgressProxy(rules)
        try:
            await proxy.start(door.listening)
        except BaseException:
            door.listening.close()
            await finish(self._doors.close(door))
            raise
        if self._closing.begun:  # nobody else closes this proxy
            await proxy.aclose()
            raise SandboxGoneError(f"the sandbox {self.id} is gone: it was closed")
        self._proxy = (proxy, door)

    async def _end_proxy(self) -> None:
        if self._proxy is not None:
            (proxy, door), self._proxy = self._proxy, None
            await proxy.aclose()
            await self._doors.close(door)

    def _make_proxy_env(self) -> dict[str, str]:
        if self._proxy is None:
            return {}
        url = self._proxy[1].root_url
        return {**dict.fromkeys(_PROXY_NAMES, url), "NO_PROXY": _NO_PROXY, "no_proxy": _NO_PROXY}

    async def end_processes(self) -> None:
        self._life.check()
        await self._commands.end_all()
        await self._doors.reopen()

    async def close(self) -> None:
        await self._closing.finish()

    async def _close(self) -> None:
        self._life.reason = self._life.reason or "it was closed"
        self.drop_watch()
        servers = [serving[0] for serving in (self._relay, self._proxy) if serving is not None]
        faults = await asyncio.gather(*(server.aclose() for server in servers), return_exceptions=True)
        try:
            await remove_container(self._life)
        except Exception:  # but not where its event loop is ending: whoever closes it then begins anew
            self._let_go()
            raise
        self._let_go()
        for fault in faults:
            if fault is not None:
                raise fault

    def _let_go(self) -> None:
        """Give back what this machine holds for the box."""
        self._doors.forget()
        self._commands.drop_all()
        if self._life.view is not None:
            self._life.view.close()
        self._on_close(self)

    def drop_watch(self) -> None:
        """Stop measuring, where the box is taken back before anybody had it."""
        if self._watch is not None:
            self._watch.cancel()

    async def _watch_disk(self, measure: Callable[[], Awaitable[int]], limit: int) -> None:
        """Kill the box once it has written more than it may."""
        loop = asyncio.get_running_loop()
        pause = INTERVAL_SECONDS
        while self._life.reason is None:
            await asyncio.sleep(pause)
            began = loop.time()
            used = await measure()
            pause = max(INTERVAL_SECONDS, 10 * (loop.time() - began))
            if used > limit:
                await self._life.end(describe_excess(used, limit))


async def remove_container(life: Life) -> None:
    """Remove a container with its volumes; where the engine is gone, end at least what runs in it."""
    from docker.errors import APIError, NotFound

    try:
        await life.engine.call(lambda client: client.remove_container(life.container_id, v=True, force=True))
    except NotFound:
        return
    except MissingError:
        if life.view is not None:
            life.view.kill_all()
    except APIError as error:
        if "already in progress" not in str(error.explanation):
            with contextlib.suppress(OSError):
                if life.view is not None:
                    life.view.kill_all()
            raise SandboxError(
                f"the sandbox {life.name} could not be removed: {error.explanation}"
            ) from error
