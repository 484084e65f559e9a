"""Where commands run: which provider, boxes that are ready, one folder in each."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits, Sandbox, SandboxProvider
from castform.sandbox.errors import (
    CastformError,
    ExecTimeoutError,
    MissingError,
    SandboxError,
    SandboxFileError,
)
from castform.sandbox.pool import WarmPool
from castform.sandbox.teardown import Background
from castform_env_shell.config import ShellConfig
from castform_env_shell.replies import NOT_RUN, describe_result, describe_timeout
from castform_env_shell.state import State, read_state, write_state

FOLDER = "/task"
AUTO = ("docker", "bubblewrap")
"""What `auto` tries, in this order."""
LARGEST_FOLDER = 8 << 20  # bytes that are read out of a box
LONGEST_COMMANDS = 100_000  # bytes; an argument holds 128 KiB
NOTE = 25
"""Log level between INFO and WARNING, which castform's command line shows as a note."""

logger = logging.getLogger(__name__)


class TaskBox:
    """A box with a task's folder in it. Whoever is cancelled waits for none of what it does."""

    def __init__(self, box: Sandbox, folder: str, background: Background, *, command_seconds: float) -> None:
        self.box = box
        self.folder = folder
        self._background = background
        self._seconds = command_seconds

    async def run(self, commands: str) -> str:
        """Run a reply's commands; return what the model is told. SandboxError when the box fails."""
        if "\0" in commands or len(commands.encode("utf-8", "replace")) > LONGEST_COMMANDS:
            return NOT_RUN
        script = commands.encode("utf-8", "replace").decode()  # no lone surrogates
        work = self.box.exec(["sh", "-c", script], cwd=self.folder, timeout_seconds=self._seconds)
        try:
            result = await self._background.run(work)
        except ExecTimeoutError as error:
            return describe_timeout(error.result, self._seconds)
        return describe_result(result)

    async def read(self) -> State:
        """Return what the folder holds, once nothing in the box can change it any more."""
        return await self._background.run(self._read())

    async def close(self) -> None:
        """End the box; where that fails a warning says so."""
        try:
            await self._background.run(self.box.close())
        except SandboxError as error:
            logger.warning("a sandbox could not be closed: %s", error)

    def leave(self) -> None:
        """End the box without waiting for it."""
        self._background.begin(self.box.close())

    async def _read(self) -> State:
        await self.box.end_processes()
        with tempfile.TemporaryDirectory(prefix="castform-shell-") as place:
            target = Path(place) / "task"
            try:
                await self.box.download(self.folder, target, max_bytes=LARGEST_FOLDER)
            except SandboxFileError:  # it is gone, or far larger than any right answer
                return State()
            return await asyncio.to_thread(read_state, target)


class Boxes:
    """Gives out boxes on one event loop."""

    def __init__(self, config: ShellConfig) -> None:
        self._config = config
        self._opening = asyncio.Lock()
        self._provider: SandboxProvider | None = None
        self._pool: WarmPool | None = None
        self._request = BoxRequest()
        self._background = Background()

    async def check(self) -> None:
        """Start a box and close it. MissingError where no provider works; SandboxError: no box can be started."""
        provider = await self._get_provider()
        await (await provider.start(self._request)).close()

    async def open(self, start: State) -> TaskBox:
        """Start a box, or take one that is ready, and lay the task out in it. Errors as `check`."""
        return await self._background.run(self._open(start), undo=TaskBox.close)

    async def _open(self, start: State) -> TaskBox:
        provider = await self._get_provider()
        if self._config.warm_boxes and self._pool is None:
            self._pool = WarmPool(provider, self._request, size=self._config.warm_boxes)
            self._pool.warm()
        box = await (self._pool.take() if self._pool is not None else provider.start(self._request))
        try:
            folder = FOLDER if self._request.workdir else (await box.exec(["pwd"])).text.strip()
            with tempfile.TemporaryDirectory(prefix="castform-shell-") as place:
                await asyncio.to_thread(write_state, start, Path(place))
                await box.upload(Path(place), folder)
        except BaseException:
            await box.close()
            raise
        return TaskBox(box, folder, self._background, command_seconds=self._config.command_seconds)

    async def aclose(self) -> None:
        """Close what is ready, and the provider; wait for what rollouts that were cancelled left to be done."""
        try:
            if self._pool is not None:
                await self._pool.aclose()
            if self._provider is not None:
                await self._provider.aclose()
        finally:
            await self._background.wait()
            self._pool = self._provider = None

    async def _get_provider(self) -> SandboxProvider:
        async with self._opening:
            if self._provider is None:
                provider, isolated = await choose_provider(self._config.sandbox)
                self._request = make_request(self._config, isolated=isolated)
                self._provider = provider
            return self._provider


def describe_failure(error: CastformError) -> str:
    """Return what went wrong with a box or its provider, and the way out where there is one."""
    return f"{error} ({error.hint})" if error.hint else str(error)


def make_request(config: ShellConfig, *, isolated: bool) -> BoxRequest:
    """Return what every box of an environment is. One that isolates nothing has a folder of its own instead of /task."""
    return BoxRequest(
        image=config.image,
        workdir=FOLDER if isolated else None,
        limits=Limits(memory_mb=config.memory_mb, pids=64, disk_mb=config.disk_mb),
    )


async def choose_provider(name: str) -> tuple[SandboxProvider, bool]:
    """Return a provider that works here and whether it isolates. MissingError where none does."""
    faults: list[str] = []
    for candidate in AUTO if name == "auto" else (name,):
        provider: SandboxProvider | None = None
        try:
            provider = load_provider(candidate)
            found = await provider.check()
        except CastformError as error:
            if provider is not None:
                await provider.aclose()
            if name != "auto":
                raise
            faults.append(f"{candidate}: {error}")
            continue
        if name == "auto":
            passed_over = "".join(f"; {fault}" for fault in faults)
            logger.log(NOTE, "shell tasks run in %s boxes (sandbox is 'auto'%s)", candidate, passed_over)
        return provider, found.isolated
    raise MissingError(
        f"no sandbox works here ({'; '.join(faults)})",
        hint="start a Docker engine or install bubblewrap; sandbox = 'process' runs commands unconfined",
    )
