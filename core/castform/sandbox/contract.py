"""What a sandbox is: the seam between those who run programs and those who confine them.

A provider starts boxes; a box runs commands, holds files and is closed. Providers come in by
the `register_sandboxes` hook, `process` is built in. Times are seconds, sizes are bytes unless a
name says otherwise, paths inside a box are absolute POSIX text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from castform.sandbox.model_calls import ModelCalls

NetworkMode = Literal["none", "allowlist", "public"]
Enforcement = Literal["enforced", "watched", "not enforced"]
"""`watched`: checked about once a second and the box is killed; a short burst can pass."""

MAX_OUTPUT_BYTES = 1 << 20
"""Of each of stdout and stderr that an exec keeps, unless it is told otherwise: the tail."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What one box may use. None: no limit of its own."""

    cpus: float | None = 1.0
    memory_mb: int | None = 1024
    """MiB, swap included."""
    pids: int | None = 256
    disk_mb: int | None = 1024
    """MiB that the box may write to its own root, beside what the image holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkPolicy:
    """What a box reaches. Model endpoints that are connected to it are reachable under every policy."""

    mode: NetworkMode = "none"
    allowed_hosts: tuple[str, ...] = ()
    """For `allowlist`: host names, `*.host`, addresses and CIDR ranges."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageBuild:
    """An image that is built from a folder. Equal contents are built once."""

    context: Path
    dockerfile: str = "Dockerfile"
    """Relative to `context`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BoxRequest:
    """What to start."""

    image: str | ImageBuild | None = None
    """An image's name, a folder to build, or None: the provider's plain default."""
    workdir: str | None = None
    """Of every exec that names none; None: the image's own."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of the box and of every exec. No secrets: they are seen by everything in the box."""
    user: str | None = None
    """Of every exec that names none; None: the image's own."""
    limits: Limits = field(default_factory=Limits)
    network: NetworkPolicy = field(default_factory=NetworkPolicy)
    keep_entrypoint: bool = False
    """Run the image's ENTRYPOINT as the box starts (Harbor does); else nothing of the image runs."""
    start_timeout_seconds: float = 600.0
    """For building and starting together."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Shown by the provider's own tools beside castform's labels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecResult:
    """How a command ended, and the tail of what it wrote."""

    exit_code: int
    """128 + N where a signal N ended it."""
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_dropped: int = 0
    """Bytes that came before the tail that is kept."""
    stderr_dropped: int = 0
    seconds: float = 0.0
    out_of_memory: bool = False
    """A process of the box was killed for the box's memory limit meanwhile; False where nobody can tell."""

    @property
    def text(self) -> str:
        """stdout, with whatever is no UTF-8 replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelEndpoint:
    """An OpenAI-compatible model behind HTTP. `{base_url}` ends in /v1; the Anthropic root is above it."""

    base_url: str
    api_key: str = field(repr=False)
    model: str
    calls: ModelCalls | None = field(default=None, repr=False, compare=False)
    """Where relays note what became of the calls; None: nobody asks. Boxes do not see it."""

    @property
    def root_url(self) -> str:
        """What Anthropic clients call their base URL: they add /v1/messages themselves."""
        return self.base_url.rstrip("/").removesuffix("/v1")


class Sandbox(Protocol):
    """A started box. Everything but `close` raises SandboxGoneError once the box is no longer there."""

    @property
    def id(self) -> str: ...

    @property
    def provider(self) -> str: ...

    @property
    def notes(self) -> Sequence[str]:
        """What this box does not honour of its request, in sentences; empty when all of it holds."""
        ...

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
        """Run a program (no shell: say `["sh", "-c", …]`) to the end of its first process.

        `env` is added to the box's and never shows on a command line outside. A child that
        holds the output open keeps nobody waiting. After `timeout_seconds` the program and all its
        descendants are killed inside the box and ExecTimeoutError is raised, with what was
        written; files stay. Cancelled: killed likewise. A program that cannot be started, or a
        `cwd` that is not there, is exit code 126 or 127, as in a shell. Output is read while it runs; memory is bounded.
        """
        ...

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        """Return a regular file, read as root. SandboxFileError for none, a link, a device, a longer one."""
        ...

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Write a whole file, with the folders above it. Replaces what is there, and a link itself."""
        ...

    async def upload(self, source: Path, target: str) -> None:
        """Copy a file to `target`, or a folder's content into it. Modes are kept, owners become root."""
        ...

    async def download(self, source: str, target: Path, *, max_bytes: int = 1 << 30) -> None:
        """Copy a file, or a folder's content, to `target` outside.

        Only regular files, folders and links that stay inside the copy come out; others are left
        out. SandboxFileError when there is no such path or it holds more than `max_bytes`.
        """
        ...

    async def connect(self, endpoint: ModelEndpoint) -> ModelEndpoint:
        """Make a model reachable from inside; return it as a program in the box has to use it.

        The returned key opens nothing: the real one is added outside. Nothing of the host but this
        one session is reachable by it. A later connect replaces the earlier one.
        """
        ...

    async def set_network(self, policy: NetworkPolicy) -> None:
        """Change what is reachable from now on. UsageError where the provider cannot."""
        ...

    async def end_processes(self) -> None:
        """Kill everything that commands left running; the box and its files stay."""
        ...

    async def close(self) -> None:
        """End the box and all that is in it. Twice is fine; finishes even when it is cancelled."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Capabilities:
    """What a provider holds to, as it was found out on this machine."""

    isolated: bool
    """Whether a hostile program is kept from the host. `process`: no."""
    cpus: Enforcement
    memory: Enforcement
    pids: Enforcement
    disk: Enforcement
    networks: frozenset[NetworkMode]
    users: bool
    """Whether commands can run as other users than root."""
    images: bool
    """Whether FROM and image names are honoured."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """How many boxes of one size fit."""

    boxes: int
    """At a time, those that run already included."""
    networks: int | None
    """Box networks that are left; None: the provider needs none."""
    reason: str
    """What bounds it, with the numbers."""


class SandboxProvider(Protocol):
    """Starts boxes. One object serves many at a time."""

    @property
    def name(self) -> str: ...

    async def check(self) -> Capabilities:
        """Probe this machine. MissingError, with the way out, where the provider cannot work."""
        ...

    async def measure_capacity(self, limits: Limits) -> Capacity:
        """Say how many boxes with these limits fit here now."""
        ...

    async def start(self, request: BoxRequest) -> Sandbox:
        """Build what has to be built, start a box, verify its limits are in force.

        SandboxBuildError with the tail of the build's output; SandboxStartError for the rest, and
        when it takes longer than `start_timeout_seconds`. Cancelled or failed: nothing is left.
        """
        ...

    async def reap(self) -> Sequence[str]:
        """Remove what dead owners left, and only that; return what was removed."""
        ...

    async def aclose(self) -> None:
        """Close every box that is still open and release the provider."""
        ...
