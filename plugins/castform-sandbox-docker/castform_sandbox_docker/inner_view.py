"""A box's processes seen from inside it, where this machine cannot see them: slower, same answers.

A shell of the image, started by the engine as the box's root, lists and kills them. Such a box has
the capability that this takes (`container.INNER_CAPABILITY`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from castform.sandbox.errors import MissingError, SandboxError, SandboxGoneError
from castform.sandbox.teardown import finish
from castform_sandbox_docker.attach import StartRefusedError, attach
from castform_sandbox_docker.life import Life
from castform_sandbox_docker.processes import MARKER, Process, parse_process

if TYPE_CHECKING:
    import docker

_LIST = (
    "for d in /proc/[0-9]*; do s=; m=; "
    '{ while read -r l || [ -n "$l" ]; do s="$s $l"; done <$d/stat; } 2>/dev/null || continue; '
    f'{{ while read -r l || [ -n "$l" ]; do case $l in *{MARKER}=*) m=${{l##*{MARKER}=}}; '
    'r=${m#????????????????}; m=${m%"$r"};; esac; done <$d/environ; } 2>/dev/null; '
    'echo "${d#/proc/} ${m:--} $s"; done; echo end'
)
"""By what every shell has in itself: a full box has no process to spare. Markers have 16 characters."""
_SPARE_PROCESSES = 32
"""That the engine needs to start a shell, where the box is full."""
_KILL_SECONDS = 10.0
"""What forks faster than shells can look is given so long; then the box is ended."""
_MOST_OUTPUT = 4 << 20
_GROUP_FILES = {
    ("memory", "memory.limit_in_bytes"): "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ("memory", "memory.memsw.limit_in_bytes"): "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
    ("memory", "memory.oom_control"): "/sys/fs/cgroup/memory/memory.oom_control",
    ("cpu", "cpu.cfs_quota_us"): "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    ("cpu", "cpu.cfs_period_us"): "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
    ("pids", "pids.max"): "/sys/fs/cgroup/pids/pids.max",
    ("memory", "memory.max"): "/sys/fs/cgroup/memory.max",
    ("memory", "memory.swap.max"): "/sys/fs/cgroup/memory.swap.max",
    ("memory", "memory.events"): "/sys/fs/cgroup/memory.events",
    ("cpu", "cpu.max"): "/sys/fs/cgroup/cpu.max",
}
_V2_PIDS = "/sys/fs/cgroup/pids.max"


class InnerView:
    """One running box."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._own = secrets.token_hex(8)
        """Marker of the shells that look; nothing in the box can read it."""

    async def list_processes(self) -> list[Process]:
        """Return every process of the box that has not ended, but those that look. Ids are the box's own."""
        found = []
        lines = (await self._run(_LIST)).decode("utf-8", "replace").splitlines()
        if not lines or lines[-1] != "end":
            raise SandboxError("the box's processes cannot be listed")
        for line in lines:
            pid, _, rest = line.partition(" ")
            marker, _, stat = rest.partition(" ")
            if not pid.isdigit() or marker == self._own:
                continue
            process = parse_process(int(pid), stat, "" if marker == "-" else marker)
            if process is not None:
                found.append(process)
        return found

    async def kill(self, choose: Callable[[list[Process]], Iterable[int]]) -> bool:
        """Kill what `choose` picks until it picks nothing more; False when that does not come about."""
        try:
            return await self._kill(choose)
        except SandboxGoneError:
            raise
        except SandboxError:
            pass  # no shell can be started: the box has all the processes it may have
        said: Any = await self._life.call(lambda client: client.inspect_container(self._life.container_id))
        limit = int(said["HostConfig"].get("PidsLimit") or 0)
        if limit <= 0:
            return False
        try:
            await self._set_process_limit(limit + _SPARE_PROCESSES)
            return await self._kill(choose)
        except SandboxGoneError:
            raise
        except SandboxError:
            return False
        finally:
            await finish(self._set_process_limit(limit))

    async def _kill(self, choose: Callable[[list[Process]], Iterable[int]]) -> bool:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _KILL_SECONDS
        while loop.time() < give_up:
            chosen = sorted(set(choose(await self.list_processes())))
            if not chosen:
                return True
            words = " ".join(map(str, chosen))
            await self._run(f"kill -STOP {words} 2>/dev/null; kill -KILL {words} 2>/dev/null; :")
        return False

    async def _set_process_limit(self, limit: int) -> None:
        """Set how many processes the box may have. The SDK's own call does not know this one."""

        def work(client: docker.APIClient) -> None:
            url = f"{client.base_url}/v{client.api_version}/containers/{self._life.container_id}/update"
            client.post(url, json={"PidsLimit": limit}, timeout=client.timeout).raise_for_status()

        await self._life.call(work)

    async def read_groups(self) -> dict[tuple[str, str], str]:
        """Return what the files of the box's control groups say inside it, by (controller, file)."""
        places = {**_GROUP_FILES, ("pids", "v2"): _V2_PIDS}
        script = "".join(
            f'echo "{place} $(cat {place} 2>/dev/null | tr "\\n" ";")"; ' for place in places.values()
        )
        said: dict[str, str] = {}
        for line in (await self._run(script)).decode("ascii", "replace").splitlines():
            place, _, text = line.partition(" ")
            if text:
                said[place] = text.rstrip(";").replace(";", "\n")
        found = {key: said[place] for key, place in places.items() if place in said}
        if ("pids", "v2") in found:
            found["pids", "pids.max"] = found.pop(("pids", "v2"))
        return found

    async def count_oom_kills(self) -> int:
        """Return how many processes the memory limit killed so far; 0 where nobody counts."""
        found = await self.read_groups()
        text = found.get(("memory", "memory.oom_control")) or found.get(("memory", "memory.events")) or ""
        for line in text.splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill" and number.isdigit():
                return int(number)
        return 0

    async def _run(self, script: str) -> bytes:
        from docker.errors import APIError

        try:
            made: Any = await self._life.call(  # Any: JSON of the engine
                lambda client: client.exec_create(
                    self._life.container_id,
                    ["/bin/sh", "-c", script],
                    user="0",
                    workdir="/",
                    environment={MARKER: self._own},
                )
            )
        except APIError as error:
            raise SandboxError(f"no shell could be started in the box: {error.explanation}") from error
        try:
            async with asyncio.timeout(self._life.engine.timeout_seconds):
                attached = await attach(self._life.engine, made["Id"], max_output_bytes=_MOST_OUTPUT)
                try:
                    await attached.read()
                finally:
                    attached.close()
        except (StartRefusedError, MissingError, OSError) as error:  # refused, late, or cut off
            await self._life.look()
            raise SandboxError(f"no shell could be started in the box: {error}") from error
        said: Any = await self._life.call(lambda client: client.exec_inspect(made["Id"]))
        if not said["Pid"]:
            raise SandboxError(f"no shell could be started in the box: {attached.stdout.tail[-300:]!r}")
        return attached.stdout.tail
