"""The provider under examination, with a box that rules share and boxes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from castform.sandbox.contract import (
    BoxRequest,
    Capabilities,
    Limits,
    NetworkPolicy,
    Sandbox,
    SandboxProvider,
)
from castform.sandbox.errors import SandboxError
from castform.testing.sandboxes.rule import BrokenRuleError, NotCheckedError


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What to examine, by name, so that another process can make the same."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)  # Any: the provider's own
    image: str | None = None
    """With a POSIX shell; None: the provider's default."""
    end_from_outside: Callable[[Sandbox], Awaitable[None]] | None = None
    """Ends a box behind the provider's back, as an operator would; without it that rule is not checked."""
    list_left: Callable[[], Awaitable[Sequence[str]]] | None = None
    """Names everything of castform's that is there, so that what is left behind is seen."""


class Examined:
    """A provider, its capabilities, and boxes to try things in."""

    def __init__(
        self, subject: Subject, provider: SandboxProvider, capabilities: Capabilities, folder: Path
    ) -> None:
        self.subject = subject
        self.provider = provider
        self.capabilities = capabilities
        self.folder = folder
        """Of this machine, for a rule's files."""
        self._shared: Sandbox | None = None

    def make_request(
        self, *, limits: Limits | None = None, network: NetworkPolicy | None = None, **rest: Any
    ) -> BoxRequest:  # Any: fields of BoxRequest
        """Return a request that this provider can serve."""
        modes = self.capabilities.networks
        if network is None:
            network = NetworkPolicy(mode="none" if "none" in modes else sorted(modes)[0])
        return BoxRequest(
            image=self.subject.image,
            limits=limits or Limits(cpus=1.0, memory_mb=512, pids=128, disk_mb=256),
            network=network,
            **rest,
        )

    async def box(self) -> Sandbox:
        """Return the box that rules share; another one where it has gone."""
        if self._shared is not None:
            try:
                await self._shared.exec(["true"])
            except SandboxError:
                await self._shared.close()
                self._shared = None
        if self._shared is None:
            self._shared = await self.provider.start(self.make_request())
        return self._shared

    @contextlib.asynccontextmanager
    async def own_box(self, request: BoxRequest | None = None) -> AsyncIterator[Sandbox]:
        """Start a box for one rule and close it afterwards."""
        box = await self.provider.start(request or self.make_request())
        try:
            yield box
        finally:
            await box.close()

    async def aclose(self) -> None:
        if self._shared is not None:
            await self._shared.close()
        await self.provider.aclose()


async def make_folder(box: Sandbox) -> str:
    """Make a new folder inside and return its path."""
    made = await box.exec(["sh", "-c", "mktemp -d"])
    path = made.text.strip()
    if made.exit_code or not path.startswith("/"):
        raise BrokenRuleError(f"`mktemp -d` inside ended with {made.exit_code}: {made.error_text.strip()}")
    return path


async def run_shell(box: Sandbox, script: str, *arguments: str, **options: Any) -> str:  # Any: those of exec
    """Run a shell script inside; return its stdout, stripped. BrokenRuleError unless it ends with 0."""
    done = await box.exec(["sh", "-c", script, "sh", *arguments], **options)
    if done.exit_code:
        raise BrokenRuleError(
            f"`{script.strip()[:200]}` ended with {done.exit_code}: {(done.error_text or done.text).strip()[-300:]}"
        )
    return done.text.strip()


def make_token() -> str:
    """Return a word that nothing else on this machine holds."""
    return f"castform{secrets.token_hex(10)}"


def find_host_processes(token: str) -> list[int]:
    """Return the processes of this machine that have a word on their command line, inside boxes or not."""
    found = []
    proc = Path("/proc")
    if not proc.exists():
        raise NotCheckedError("this system has no /proc to look for processes in")
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if token.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


async def wait_until_gone(token: str, *, seconds: float = 10.0) -> list[int]:
    """Wait for the processes with a word on their command line to end; return those that have not."""
    deadline = asyncio.get_running_loop().time() + seconds
    left, pause = find_host_processes(token), 0.02
    while left and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(pause)
        pause = min(1.0, 2 * pause)
        left = find_host_processes(token)
    return left


SLEEPER = 'exec sh -c "while :; do sleep 1; done" "$1"'
"""A script that runs on under a name that `find_host_processes` finds; the name is its first argument."""
