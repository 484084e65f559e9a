"""From an image and limits to a box whose limits are in force."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from castform.sandbox.contract import Limits
from castform.sandbox.errors import SandboxError, SandboxStartError
from castform.sandbox.teardown import finish
from castform.sandbox.trees import remove_tree
from castform_sandbox_bubblewrap.box import BubblewrapBox
from castform_sandbox_bubblewrap.first_process import FirstProcess, start_first_process
from castform_sandbox_bubblewrap.groups import remove_groups
from castform_sandbox_bubblewrap.machine import Machine
from castform_sandbox_bubblewrap.place import BoxPlace, make_id, make_place
from castform_sandbox_bubblewrap.roots import Image

_MIB = 1 << 20


async def open_box(
    machine: Machine,
    folder: Path,
    image: Image,
    limits: Limits,
    *,
    labels: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    workdir: str | None = None,
    user: str | None = None,
) -> BubblewrapBox:
    """Start a box and verify its limits. SandboxStartError; failed or cancelled, nothing is left."""
    try:
        first = await _start(machine, folder, image, limits, labels or {})
    except OSError as error:
        raise SandboxStartError(
            f"the sandbox did not start: {error}", hint="this machine has no more of what it needs"
        ) from error
    box = BubblewrapBox(
        first,
        env={**image.env, **(env or {})},
        workdir=workdir or image.workdir,
        user=user or image.user,
        users=machine.first_id is not None,
        rlimits=choose_rlimits(machine, limits),
        notes=[*image.notes, *find_gaps(machine, limits)],
    )
    try:
        await asyncio.to_thread(check_in_force, machine, first, limits)
        memory = limits.memory_mb if not _has_group(machine, "memory") else None
        disk = limits.disk_mb if first.place.disk is None else None
        if memory is not None or disk is not None:
            await box.watch(
                memory_bytes=None if memory is None else memory * _MIB,
                disk_bytes=None if disk is None else disk * _MIB,
            )
    except BaseException as error:
        await finish(box.close())
        if isinstance(error, SandboxError | OSError) and not isinstance(error, SandboxStartError):
            raise SandboxStartError(f"the sandbox did not start: {error}") from error
        raise
    return box


def choose_rlimits(machine: Machine, limits: Limits) -> dict[str, int]:
    """Return limits of each process, for what no group and no disk holds for the box."""
    chosen = {"RLIMIT_CORE": 0}
    if limits.disk_mb is not None and machine.mkfs is None:
        chosen["RLIMIT_FSIZE"] = limits.disk_mb * _MIB
    if limits.pids is not None and not _has_group(machine, "pids"):
        chosen["RLIMIT_NPROC"] = limits.pids
    return chosen


def find_gaps(machine: Machine, limits: Limits) -> list[str]:
    """Return in sentences which of the limits are not held to here."""
    gaps: list[str] = []
    if limits.cpus is not None and not _has_group(machine, "cpu"):
        gaps.append(f"the limit of {limits.cpus:g} CPUs is not enforced: no control group can be made")
    if limits.memory_mb is not None and not _has_group(machine, "memory"):
        gaps.append(f"the limit of {limits.memory_mb} MiB of memory is looked at about once a second")
    if limits.disk_mb is not None and machine.mkfs is None:
        gaps.append(f"the limit of {limits.disk_mb} MiB of disk is looked at about once a second")
    return gaps


def check_in_force(machine: Machine, first: FirstProcess, limits: Limits) -> None:
    """Raise SandboxStartError unless the first process is in its groups and its disk is as small as it should be."""
    for group in first.groups:
        inside = (group / "cgroup.procs").read_text().split()
        if str(first.pid) not in inside:
            raise SandboxStartError(f"the sandbox is not in its control group {group}")
    if first.place.disk is not None and limits.disk_mb is not None:
        disk = os.statvfs(f"/proc/{first.pid}/root")
        size_mb = disk.f_blocks * disk.f_frsize // _MIB
        if size_mb > limits.disk_mb:
            raise SandboxStartError(f"the sandbox's disk has {size_mb} MiB, {limits.disk_mb} were asked for")


def _has_group(machine: Machine, controller: str) -> bool:
    return machine.groups is not None and controller in machine.groups.places


async def _start(
    machine: Machine, folder: Path, image: Image, limits: Limits, labels: Mapping[str, str]
) -> FirstProcess:
    name = make_id()
    groups: list[Path] = []

    def prepare() -> BoxPlace:
        if machine.groups is not None:
            groups.extend(machine.groups.make(name, limits))
        return make_place(
            folder, name, machine, Path(image.root), limits.disk_mb, groups=groups, labels=labels
        )

    preparing = asyncio.ensure_future(asyncio.to_thread(prepare))
    try:
        place = await asyncio.shield(preparing)
        shm = None if limits.memory_mb is None else limits.memory_mb * _MIB
        first = await start_first_process(machine, place, groups=groups, shm_bytes=shm)
    except BaseException:
        await finish(_clear(preparing, groups, folder / "boxes" / name))
        raise
    try:
        place.write_record(groups=groups, labels=labels, pid=first.pid)
    except BaseException:
        await finish(first.end())
        raise
    return first


async def _clear(preparing: asyncio.Future[BoxPlace], groups: list[Path], place: Path) -> None:
    await asyncio.wait([preparing])
    await asyncio.to_thread(remove_groups, groups)
    await asyncio.to_thread(remove_tree, place)
