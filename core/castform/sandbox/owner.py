"""Who made a box, as labels on it, so that a reaper removes what the dead left and nothing else.

A process id alone says nothing: ids are reused, and the same number means another process on
another machine, after a reboot or in another container. Where it cannot be told, the owner lives.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from castform.runs.process import is_alive as is_process_alive
from castform.runs.process import process_start

PREFIX = "castform.owner."
_FIELDS = ("pid", "start", "boot", "machine", "namespace", "run")
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")
_MACHINE_FILE = Path("/etc/machine-id")

Liveness = Literal["alive", "dead", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """A process, named so that no other one is ever taken for it."""

    pid: int
    start: str
    """When it started, in the kernel's ticks since boot; empty where the system does not say."""
    boot: str
    """The boot's id."""
    machine: str
    namespace: str
    """Of process ids: a container has its own."""
    run: str = ""
    """What it works on, for a person."""

    def labels(self) -> dict[str, str]:
        """Return the labels to put on a box."""
        return {PREFIX + field: str(getattr(self, field)) for field in _FIELDS}

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Self | None:
        """Return the owner that labels name; None where they name none that can be read."""
        pid = labels.get(PREFIX + "pid", "")
        if not (pid.isascii() and pid.isdigit()):
            return None
        others = {field: labels.get(PREFIX + field, "") for field in _FIELDS[1:]}
        return cls(pid=int(pid), **others)


def current_owner(run: str = "") -> Owner:
    """Return this process as an owner."""
    return Owner(
        pid=os.getpid(),
        start=process_start(os.getpid()) or "",
        boot=_read(_BOOT_FILE),
        machine=_machine(),
        namespace=_namespace(),
        run=run,
    )


def tell_liveness(owner: Owner) -> Liveness:
    """Say whether an owner still runs; `unknown` where this process cannot see it."""
    if not owner.machine or owner.machine != _machine():
        return "unknown"
    if owner.boot != _read(_BOOT_FILE):
        return "dead"  # whatever ran on this machine before it was booted
    if owner.namespace != _namespace():
        return "unknown"
    return "alive" if is_process_alive(owner.pid, owner.start or None) else "dead"


def is_alive(owner: Owner) -> bool:
    """Say whether what an owner left has to stay: unless it is known to be dead."""
    return tell_liveness(owner) != "dead"


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _machine() -> str:
    """Return a name for this machine that says nothing about it."""
    text = f"{_read(_MACHINE_FILE)} {platform.node()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
