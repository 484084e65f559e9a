"""How many boxes fit beside an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from castform.sandbox.capacity import CPU_OVERCOMMIT, SPARE_MEMORY_MB, choose_tightest, measure_machine
from castform.sandbox.contract import Capacity, Limits
from castform_sandbox_docker.network import count_free_networks


def measure(
    info: Mapping[str, Any],  # Any: JSON of the engine, here and below
    networks: Sequence[Mapping[str, Any]],
    limits: Limits,
    *,
    local: bool,
    cap: int | None,
    running: int,
) -> Capacity:
    """Return how many boxes fit, by what the engine says of its machine.

    Boxes need no network each: those with a public network share one.
    """
    free = count_free_networks(info, networks)
    root = Path(str(info.get("DockerRootDir") or "/"))
    if local and root.exists():
        found = measure_machine(limits, root, limit=cap, running=running)
    else:
        found = _measure_far(info, limits, cap)
    return Capacity(
        boxes=found.boxes,
        networks=None,
        reason=f"{found.reason}; the engine has addresses for {free} more networks, of which all public boxes share one",
    )


def _measure_far(info: Mapping[str, Any], limits: Limits, cap: int | None) -> Capacity:
    fits: dict[str, tuple[int, str]] = {}
    cpus, memory_mb = int(info["NCPU"]), int(info["MemTotal"]) >> 20
    if limits.cpus:
        fits["cpus"] = (
            int(cpus * CPU_OVERCOMMIT / limits.cpus),
            f"{cpus} CPUs, {CPU_OVERCOMMIT:g} boxes of 1 on each, {limits.cpus:g} a box",
        )
    if limits.memory_mb:
        fits["memory"] = (
            max(0, memory_mb - SPARE_MEMORY_MB) // limits.memory_mb,
            f"{memory_mb} MiB of memory, {SPARE_MEMORY_MB} kept, {limits.memory_mb} a box",
        )
    if cap is not None:
        fits["cap"] = (cap, f"at most {cap} boxes at a time are configured")
    return choose_tightest(fits)
