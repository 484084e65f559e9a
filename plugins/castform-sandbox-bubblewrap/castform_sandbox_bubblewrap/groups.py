"""Control groups of boxes, by version 1 or 2, where this process may make them.

A box's group lies in `castform/` at the top of each hierarchy, as other engines' do. Its name says who owns it,
so that it is found and removed although nothing else is left of its box.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from castform.sandbox.contract import Limits
from castform.sandbox.errors import SandboxStartError
from castform.sandbox.owner import Owner, current_owner, is_alive

CONTROLLERS = ("cpu", "memory", "pids")
_PERIOD = 100_000
_MIB = 1 << 20
_REMOVE_SECONDS = 5.0
_STILL_SECONDS = 5.0
_NAME = re.compile(r"(?P<box>[\w-]+)\.(?P<pid>\d+)\.(?P<start>\d+)\.(?P<namespace>\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Where groups of boxes are made."""

    version: int
    places: Mapping[str, Path]
    """The parent folder by controller; one and the same for all in version 2."""

    def make(self, name: str, limits: Limits) -> list[Path]:
        """Make a box's groups with its limits and return their folders. SandboxStartError where one is not taken."""
        made: list[Path] = []
        try:
            for controller in CONTROLLERS:
                if controller not in self.places:
                    continue
                folder = self.places[controller] / name_group(name)
                if folder not in made:
                    folder.mkdir()
                    made.append(folder)
                    _share_fairly(folder.parent, self.version)
                for file, value in settings(self.version, controller, limits).items():
                    _set(folder / file, value)
        except OSError as error:
            remove_groups(made)
            raise SandboxStartError(f"the limits of the sandbox cannot be set: {error}") from error
        except BaseException:
            remove_groups(made)
            raise
        return made


def name_group(box: str) -> str:
    """Return the name of this process's group for a box."""
    owner = current_owner()
    return f"{box}.{owner.pid}.{owner.start}.{re.sub(r'[^0-9]', '', owner.namespace)}"


def read_owner(name: str) -> tuple[str, Owner] | None:
    """Return the box and the owner that a group's name tells of, None where it is none of ours.

    No group outlives the boot or is on another machine.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    here = f"pid:[{match['namespace']}]"
    return match["box"], replace(current_owner(), pid=int(match["pid"]), start=match["start"], namespace=here)


def settings(version: int, controller: str, limits: Limits) -> dict[str, str]:
    """Return files and values that hold one kind of limit, in the order in which they are written."""
    if controller == "memory" and limits.memory_mb is not None:
        size = str(limits.memory_mb * _MIB)
        if version == 1:
            return {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}
        return {"memory.max": size, "memory.swap.max": "0"}
    if controller == "pids" and limits.pids is not None:
        return {"pids.max": str(limits.pids)}
    if controller == "cpu" and limits.cpus is not None:
        quota = str(max(1000, int(limits.cpus * _PERIOD)))
        if version == 1:
            return {"cpu.cfs_period_us": str(_PERIOD), "cpu.cfs_quota_us": quota}
        return {"cpu.max": f"{quota} {_PERIOD}"}
    return {}


def find_groups(mounts: str | None = None) -> Groups | None:
    """Return where groups can be made, tried by making one; None where that is nowhere."""
    try:
        text = Path("/proc/self/mountinfo").read_text() if mounts is None else mounts
    except OSError:  # no Linux
        return None
    tops: dict[str, Path] = {}
    unified: Path | None = None
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        place, (kind, _, options) = Path(left.split()[4]), right.split()[:3]
        if kind == "cgroup":
            tops |= {name: place for name in options.split(",") if name in CONTROLLERS}
        elif kind == "cgroup2":
            unified = place
    found: dict[str, Path] = {}
    for controller, top in tops.items():
        with contextlib.suppress(OSError):
            found[controller] = _prepare(top / "castform")
    if found:
        return Groups(version=1, places=found)
    return None if unified is None else _find_unified(unified)


def _find_unified(top: Path) -> Groups | None:
    """Return what version 2 has, at the top or below the group that a service manager handed to this user."""
    for base in (top, *_delegated(top)):
        with contextlib.suppress(OSError):
            offered = (base / "cgroup.controllers").read_text().split()
            wanted = [name for name in CONTROLLERS if name in offered]
            for name in wanted:
                _enable(base, name)
            parent = base / "castform"
            parent.mkdir(exist_ok=True)
            for name in wanted:
                _enable(parent, name)
            _prepare(parent)
            if wanted:
                return Groups(version=2, places=dict.fromkeys(wanted, parent))
    return None


def _share_fairly(parent: Path, version: int) -> None:
    """Give all boxes together as much of the CPU as so many processes have, not as one."""
    boxes = sum(entry.is_dir() for entry in parent.iterdir())
    name, each, most = ("cpu.shares", 1024, 262_144) if version == 1 else ("cpu.weight", 100, 10_000)
    with contextlib.suppress(OSError):
        if (parent / name).exists():
            (parent / name).write_text(str(min(most, each * max(1, boxes))))


def _delegated(top: Path) -> list[Path]:
    own = next(
        (line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")),
        "/",
    )
    parts = own.strip("/").split("/")
    depth = next((place for place, part in enumerate(parts) if part == f"user@{os.getuid()}.service"), None)
    return [] if depth is None else [top.joinpath(*parts[: depth + 1])]


def _enable(folder: Path, controller: str) -> None:
    if controller not in (folder / "cgroup.subtree_control").read_text().split():
        (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _prepare(parent: Path) -> Path:
    """Return a folder in which groups can be made. OSError where they cannot."""
    parent.mkdir(exist_ok=True)
    trial = parent / name_group(f"trial-{time.monotonic_ns()}")
    trial.mkdir()
    trial.rmdir()
    return parent


def _set(file: Path, value: str) -> None:
    """Write a limit and read it back. OSError when it is not there; without swap accounting its file is missing."""
    if not file.exists() and ("memsw" in file.name or "swap" in file.name):
        return
    file.write_text(value)
    got = file.read_text().strip()
    if got != value:
        raise OSError(f"{file.name} is {got} after {value} was written")


def kill_group(folder: Path) -> None:
    """Kill all processes of a group and no other, although a number that was read may be another's by now."""
    with contextlib.suppress(OSError):
        (folder / "cgroup.kill").write_text("1")
        return
    with contextlib.ExitStack() as stack:
        opened: dict[str, int] = {}
        for pid in _list_processes(folder):
            with contextlib.suppress(OSError):
                opened[pid] = os.pidfd_open(int(pid))
                stack.callback(os.close, opened[pid])
        for pid in _list_processes(folder):  # those that were opened keep their numbers
            if pid in opened:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(opened[pid], signal.SIGKILL)


def _list_processes(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.procs").read_text().split()
    except OSError:  # the group is gone
        return []


def reap_groups(groups: Groups) -> list[str]:
    """Remove the groups of dead owners, wherever their boxes lay; return the names of the boxes. Blocks."""
    removed: set[str] = set()
    for parent in set(groups.places.values()):
        for folder in sorted(parent.iterdir()):
            found = read_owner(folder.name)
            if found is not None and not is_alive(found[1]):
                remove_groups([folder])
                removed.add(found[0])
    return sorted(removed)


def remove_groups(folders: Sequence[Path]) -> None:
    """Remove a box's groups, killing what is still in them."""
    for folder in folders:
        deadline = time.monotonic() + _REMOVE_SECONDS
        while True:
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    break
                kill_group(folder)
                time.sleep(0.005)  # until the kernel has taken the last process out
            else:
                break


def count_out_of_memory(groups: Sequence[Path]) -> int:
    """Return how many processes of a box the kernel has ended for want of memory."""
    for group in groups:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError, ValueError):
                for line in (group / name).read_text().splitlines():
                    word, _, number = line.partition(" ")
                    if word == "oom_kill":
                        return int(number)
    return 0


def wait_until_still(groups: Sequence[Path]) -> None:
    """Wait until a box's stopped processes have stopped: a signal arrives when its process next runs. Blocks."""
    deadline = time.monotonic() + _STILL_SECONDS
    while _count_moving(groups) > 1 and time.monotonic() < deadline:
        time.sleep(0.005)


def _count_moving(groups: Sequence[Path]) -> int:
    """Return how many processes of a box are neither stopped nor ended, its first one included."""
    moving = 0
    for group in groups[:1]:  # each has all of them
        for pid in _list_processes(group):
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
                moving += stat.rpartition(")")[2].split()[0] not in "TtZX"
    return moving


def raise_process_limit(groups: Sequence[Path], by: int) -> dict[Path, str]:
    """Let a box have some processes more; return what its limits were, by file."""
    before: dict[Path, str] = {}
    for group in groups:
        file = group / "pids.max"
        with contextlib.suppress(OSError):
            said = file.read_text().strip()
            if said.isdigit():
                before[file] = said
                file.write_text(str(int(said) + by))
    return before


def restore_process_limit(before: Mapping[Path, str]) -> None:
    """Take back what `raise_process_limit` did."""
    for file, said in before.items():
        with contextlib.suppress(OSError):  # the box is gone
            file.write_text(said)
