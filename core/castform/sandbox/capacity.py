"""How many boxes fit on this machine: what providers that start processes here have in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from castform.sandbox.contract import Capacity, Limits
from castform.sandbox.errors import UsageError

SPARE_MEMORY_MB = 512
"""Left to the machine."""
SPARE_DISK_MB = 1024
CPU_OVERCOMMIT = 8.0
"""Boxes mostly wait for a model: so many times the CPUs may be promised."""
_MIB = 1 << 20
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_MEMORY_USAGES = (Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"))
_MEMORY_STATS = (Path("/sys/fs/cgroup/memory.stat"), Path("/sys/fs/cgroup/memory/memory.stat"))
_CACHE_LINES = ("inactive_file", "total_inactive_file")
"""Of version 2 and 1: what was read from files and is given up as soon as somebody needs the memory."""


def measure_machine(limits: Limits, disk: Path, *, limit: int | None = None, running: int = 0) -> Capacity:
    """Return how many boxes fit by this machine's CPUs, free memory and free disk.

    `disk`: a folder on the disk that boxes write to. `limit`: a cap of the provider's own.
    `running`: boxes that run already, whose use is no longer free.
    """
    fits: dict[str, tuple[int, str]] = {}
    if limits.cpus:
        cpus = count_cpus()
        fits["cpus"] = (
            int(cpus * CPU_OVERCOMMIT / limits.cpus),
            f"{cpus} CPUs, {CPU_OVERCOMMIT:g} boxes of 1 on each, {limits.cpus:g} a box",
        )
    free_mb = measure_free_memory()
    if limits.memory_mb and free_mb is not None:
        fits["memory"] = (
            max(0, free_mb - SPARE_MEMORY_MB) // limits.memory_mb + running,
            f"{free_mb} MiB of memory free, {SPARE_MEMORY_MB} kept, {limits.memory_mb} a box",
        )
    if limits.disk_mb:
        disk_mb = shutil.disk_usage(disk).free // _MIB
        fits["disk"] = (
            max(0, disk_mb - SPARE_DISK_MB) // limits.disk_mb + running,
            f"{disk_mb} MiB of disk free, {SPARE_DISK_MB} kept, {limits.disk_mb} a box",
        )
    if limit is not None:
        fits["cap"] = (limit, f"at most {limit} boxes at a time are configured")
    return choose_tightest(fits)


def choose_tightest(fits: Mapping[str, tuple[int, str]], *, networks: int | None = None) -> Capacity:
    """Return the capacity that the tightest of several bounds gives; without any, one box a process id."""
    if not fits:
        return Capacity(boxes=4096, networks=networks, reason="nothing limits a box")
    boxes, reason = min(fits.values(), key=lambda fit: fit[0])
    return Capacity(boxes=boxes, networks=networks, reason=reason)


def check_fit(capacity: Capacity, wanted: int, *, what: str = "sandboxes") -> None:
    """Raise UsageError when so many at a time do not fit, before any of them is started."""
    if wanted > capacity.boxes:
        raise UsageError(
            f"{wanted} {what} at a time do not fit here, {capacity.boxes} do: {capacity.reason}",
            hint="run fewer at a time, or give each of them less",
        )
    if capacity.networks is not None and wanted > capacity.networks:
        raise UsageError(
            f"{wanted} {what} need as many networks at a time, {capacity.networks} are left",
            hint="run fewer at a time, or widen the engine's address pools",
        )


def count_cpus() -> int:
    """Return the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - systems without affinity


def measure_free_memory() -> int | None:
    """Return the MiB that new processes can have, by the machine and by this control group; None if unknown."""
    found = [free for free in (_free_of_machine(), _free_of_group()) if free is not None]
    return min(found) if found else None


def _free_of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _free_of_group() -> int | None:
    limit = _first_number(_MEMORY_LIMITS)
    used = _first_number(_MEMORY_USAGES)
    if limit is None or used is None or limit >= 1 << 60:  # version 1 says "no limit" by a huge number
        return None
    return max(0, limit - max(0, used - _read_cache())) // _MIB


def _read_cache() -> int:
    for place in _MEMORY_STATS:
        try:
            words = [line.split() for line in place.read_text("ascii").splitlines()]
            found = [int(size) for name, size in words if name in _CACHE_LINES]
        except (OSError, ValueError):
            continue
        if found:
            return max(found)  # version 1 has both, of this group and with those below it
    return 0


def _first_number(places: tuple[Path, ...]) -> int | None:
    for place in places:
        try:
            return int(place.read_text("ascii"))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return None
