"""Limits as the engine takes them, and whether the kernel holds to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from castform.sandbox.contract import Limits
from castform.sandbox.errors import SandboxStartError

_MIB = 1 << 20
_PERIOD = 100_000
"""Microseconds in which a box may use its share of the processors."""

Read = Callable[[str, str], str | None]
"""(controller, file) -> what the file of the box's group says; None where there is none."""


def make_limit_options(limits: Limits) -> dict[str, Any]:  # Any: the SDK's keywords
    """Return the keywords for the SDK's `create_host_config`."""
    options: dict[str, Any] = {}
    if limits.memory_mb is not None:
        options["mem_limit"] = options["memswap_limit"] = limits.memory_mb * _MIB
    if limits.cpus is not None:
        options["cpu_period"] = _PERIOD
        options["cpu_quota"] = max(1000, round(limits.cpus * _PERIOD))
    if limits.pids is not None:
        options["pids_limit"] = limits.pids
    if limits.disk_mb is not None:
        from docker.types import Ulimit

        size = limits.disk_mb * _MIB
        options["ulimits"] = [Ulimit(name="fsize", soft=size, hard=size)]
    return options


def check_limits(limits: Limits, read: Read) -> None:
    """Compare the box's groups with what was asked. SandboxStartError where a limit is not in force."""
    faults = []
    if limits.memory_mb is not None:
        faults += _check_memory(limits.memory_mb * _MIB, read)
    if limits.cpus is not None:
        faults += _check_cpus(limits.cpus, read)
    if limits.pids is not None:
        said = read("pids", "pids.max")
        if said != str(limits.pids):
            faults.append(f"processes: {limits.pids} asked for, the kernel says {said}")
    if faults:
        raise SandboxStartError(
            f"the box's limits are not in force: {'; '.join(faults)}",
            hint="`docker info` names the limits that this kernel cannot hold; ask for none of them (None)",
        )


def _check_memory(size: int, read: Read) -> list[str]:
    first = read("memory", "memory.limit_in_bytes")
    if first is not None:
        swap = read("memory", "memory.memsw.limit_in_bytes")
        wrong = _differs(first, size) or (swap is not None and _differs(swap, size))
        return [f"memory: {size} bytes asked for, the kernel says {first}, with swap {swap}"] if wrong else []
    most, swap = read("memory", "memory.max"), read("memory", "memory.swap.max")
    wrong = _differs(most, size) or (swap is not None and swap != "0")
    return [f"memory: {size} bytes asked for, the kernel says {most}, and swap {swap}"] if wrong else []


def _differs(said: str | None, size: int) -> bool:
    """The kernel rounds to pages."""
    return said is None or not said.isdigit() or abs(int(said) - size) > 1 << 16


def _check_cpus(cpus: float, read: Read) -> list[str]:
    both = read("cpu", "cpu.max")
    if both is not None:
        quota, _, period = both.partition(" ")
    else:
        quota, period = read("cpu", "cpu.cfs_quota_us") or "", read("cpu", "cpu.cfs_period_us") or ""
    right = quota.isdigit() and period.isdigit() and int(period) > 0
    if not right or abs(int(quota) / int(period) - cpus) > 0.011:
        return [f"processors: {cpus} asked for, the kernel says {quota or 'nothing'} of {period or '?'} µs"]
    return []
