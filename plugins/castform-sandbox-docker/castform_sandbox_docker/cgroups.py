"""A box's control groups as root of the engine's machine sees them, version 1 and 2."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_V2 = ""
_FREEZE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """The folders of a box's groups, by controller; under "" the one of version 2."""

    folders: Mapping[str, Path]

    def read(self, controller: str, name: str) -> str | None:
        """Return what a file of a controller says; None where there is none."""
        folder = self.folders.get(controller) or self.folders.get(_V2)
        if folder is None:
            return None
        try:
            return (folder / name).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None

    def pids(self) -> list[int]:
        """Return the processes of the box as this machine numbers them."""
        folder = self.folders.get("pids") or self.folders.get("memory") or self.folders.get(_V2)
        found: list[int] = []
        if folder is not None:
            for file in folder.rglob("cgroup.procs"):
                with contextlib.suppress(OSError):
                    found += [int(word) for word in file.read_text("ascii").split()]
        return found

    def count_oom_kills(self) -> int:
        """Return how many processes the memory limit killed so far; 0 where nobody counts."""
        for text in (self.read("memory", "memory.oom_control"), self.read("memory", "memory.events")):
            for line in (text or "").splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill":
                    return int(number)
        return 0

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold every process of the box still for a block, where the kernel can."""
        freezer = self.folders.get("freezer")
        if freezer is not None:
            switch, on, off = freezer / "freezer.state", "FROZEN", "THAWED"
            state, sign = switch, "FROZEN"
        elif (folder := self.folders.get(_V2)) is not None:
            switch, on, off = folder / "cgroup.freeze", "1", "0"
            state, sign = folder / "cgroup.events", "frozen 1"
        else:
            yield
            return
        try:
            with contextlib.suppress(OSError):  # where the box is gone meanwhile there is nothing to hold
                switch.write_text(on, "ascii")
                give_up = time.monotonic() + _FREEZE_SECONDS
                while sign not in state.read_text("ascii") and time.monotonic() < give_up:
                    time.sleep(0.001)
            yield
        finally:
            with contextlib.suppress(OSError):
                switch.write_text(off, "ascii")


def find_groups(pid: int, container_id: str, *, proc: Path = Path("/proc")) -> Groups | None:
    """Return the groups of a container's first process; None where this process cannot see them.

    They are seen by a process of the machine that the engine runs on, outside of containers: the
    id of the container is then part of the group's path.
    """
    try:
        memberships = (proc / str(pid) / "cgroup").read_text("utf-8")
        mounts = list(_list_mounts((proc / "self" / "mountinfo").read_text("utf-8")))
    except OSError:
        return None
    if container_id not in memberships:
        return None
    folders: dict[str, Path] = {}
    for line in memberships.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            for mounted, root, place in mounts:
                if controller in mounted and path.startswith(root.rstrip("/") + "/"):
                    folder = place / path[len(root.rstrip("/")) + 1 :]
                    if (folder / "cgroup.procs").exists():
                        folders[controller] = folder
                        break
    groups = Groups(folders=folders)
    return groups if pid in groups.pids() else None


def _list_mounts(text: str) -> Iterator[tuple[frozenset[str], str, Path]]:
    """Yield (controllers, root, mount point) of every mounted hierarchy."""
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split(" ", 2)
        if kind == "cgroup2":
            yield frozenset([_V2]), fields[3], Path(fields[4])
        elif kind == "cgroup":
            yield frozenset(options.split(",")), fields[3], Path(fields[4])
