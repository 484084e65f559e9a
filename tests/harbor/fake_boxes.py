"""Boxes without a sandbox: a folder that stands for the root, and paths that are rewritten into it.

Commands run in the machine's own sh, so the lifecycle of a trial is tried with real programs and
real files, in milliseconds; nothing is isolated.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

from castform.sandbox.contract import (
    MAX_OUTPUT_BYTES,
    BoxRequest,
    Capabilities,
    Capacity,
    ExecResult,
    ModelEndpoint,
    NetworkPolicy,
)
from castform.sandbox.errors import ExecTimeoutError, SandboxFileError, SandboxGoneError, UsageError

PATHS = re.compile(r"(?<![\w./$-])/(tests|logs|solution|work)\b")
EVERYTHING = Capabilities(
    isolated=True,
    cpus="enforced",
    memory="enforced",
    pids="enforced",
    disk="enforced",
    networks=frozenset({"none", "public", "allowlist"}),
    users=True,
    images=True,
)


@dataclass
class FakeBox:
    root: Path
    request: BoxRequest
    id: str
    provider: str = "fake"
    notes: tuple[str, ...] = ()
    calls: list[tuple[str, object]] = field(default_factory=list)
    closed: bool = False
    gone: bool = False
    groups: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workdir = self.request.workdir or "/work"
        self.place(self.workdir).mkdir(parents=True)

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def rewrite(self, text: str) -> str:
        return PATHS.sub(lambda match: f"{self.root}/{match[1]}", text)

    def _check(self) -> None:
        if self.closed or self.gone:
            raise SandboxGoneError("the box is not running")

    async def exec(
        self,
        command,
        *,
        cwd=None,
        env=None,
        user=None,
        timeout_seconds=None,
        stdin=b"",
        max_output_bytes=MAX_OUTPUT_BYTES,
    ) -> ExecResult:
        self._check()
        self.calls.append(("exec", {"command": list(command), "user": user, "env": dict(env or {})}))
        process = await self._start(
            [self.rewrite(word) for word in command],
            cwd=self.place(cwd or self.workdir),
            env={"PATH": os.environ["PATH"], **self.request.env, **(env or {})},
        )
        try:
            async with asyncio.timeout(timeout_seconds):
                out, err = await process.communicate()
        except TimeoutError as error:
            self._kill(process.pid)
            raise ExecTimeoutError("took too long", result=ExecResult(exit_code=137)) from error
        except asyncio.CancelledError:
            self._kill(process.pid)
            await process.wait()
            raise
        self._check()
        code = process.returncode
        return ExecResult(
            exit_code=128 - code if code < 0 else code,
            stdout=out.replace(str(self.root).encode(), b"")[-max_output_bytes:],
            stderr=err[-max_output_bytes:],
        )

    async def _start(self, command, **options):
        """Start a program to the end, also when that is cancelled: asyncio would kill it alone, and wait for
        the children that hold its output."""
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *command,
                **options,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        )
        cancelled = None
        while not starting.done():
            try:
                await asyncio.wait({starting})
            except asyncio.CancelledError as error:
                cancelled = error
        process = starting.result()
        self.groups.append(process.pid)
        if cancelled is not None:
            self._kill(process.pid)
            await process.wait()
            raise cancelled
        return process

    async def read_file(self, path, *, max_bytes=16 << 20) -> bytes:
        self._check()
        place = self.place(path)
        if place.is_symlink() or not place.is_file() or place.stat().st_size > max_bytes:
            raise SandboxFileError(f"{path} cannot be read")
        return place.read_bytes()

    async def write_file(self, path, data, *, mode=0o644, user=None) -> None:
        self._check()
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    async def upload(self, source, target) -> None:
        self._check()
        self.calls.append(("upload", target))
        place = self.place(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, place)
        for file in [place, *place.rglob("*")]:
            if file.is_file() and not file.is_symlink() and file.suffix in (".sh", ".py"):
                file.write_text(self.rewrite(file.read_text()))

    async def download(self, source, target, *, max_bytes=1 << 30) -> None:
        self._check()
        self.calls.append(("download", source))
        place = self.place(source)
        if place.is_symlink() or not (place.is_file() or place.is_dir()):
            raise SandboxFileError(f"{source} is not there, or neither a file nor a folder")
        if place.is_file() and target.is_dir():
            raise UsageError(f"{target} is a folder and {source} a file")
        files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
        if sum(file.stat().st_size for file in files) > max_bytes:
            raise SandboxFileError(f"{source} holds more than {max_bytes} bytes")
        if place.is_dir():
            shutil.copytree(
                place,
                target,
                dirs_exist_ok=True,
                ignore=lambda at, names: [name for name in names if (Path(at) / name).is_symlink()],
            )
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(place, target)

    async def connect(self, endpoint: ModelEndpoint) -> ModelEndpoint:
        return endpoint

    async def set_network(self, policy: NetworkPolicy) -> None:
        self._check()
        self.calls.append(("network", policy.mode))

    async def end_processes(self) -> None:
        self._check()
        self.calls.append(("end_processes", None))
        for group in self.groups:
            self._kill(group)

    async def close(self) -> None:
        self.calls.append(("close", None))
        self.closed = True
        for group in self.groups:
            self._kill(group)

    def _kill(self, group: int) -> None:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def commands(self) -> list[str]:
        """The last word of every exec, in order: what was run."""
        return [call["command"][-1] for kind, call in self.calls if kind == "exec"]

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.calls]


class FakeProvider:
    """Starts boxes below a folder and keeps them for looking at. `failure`: raised by the next start."""

    name = "fake"

    def __init__(self, folder: Path, capabilities: Capabilities = EVERYTHING) -> None:
        self._folder = folder
        self._capabilities = capabilities
        self.boxes: list[FakeBox] = []
        self.failure: BaseException | None = None

    async def check(self) -> Capabilities:
        return self._capabilities

    async def measure_capacity(self, limits) -> Capacity:
        return Capacity(boxes=100, networks=None, reason="nothing is started")

    async def start(self, request: BoxRequest) -> FakeBox:
        if self.failure is not None:
            raise self.failure
        number = len(self.boxes)
        root = self._folder / f"box{number}"
        root.mkdir(parents=True)
        box = FakeBox(root=root, request=request, id=f"fake-{number}")
        self.boxes.append(box)
        return box

    async def reap(self):
        return []

    async def aclose(self) -> None:
        for box in self.boxes:
            await box.close()
