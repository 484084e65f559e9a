"""Starts boxes of Linux namespaces by bubblewrap."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from castform.sandbox.capacity import measure_machine
from castform.sandbox.contract import BoxRequest, Capabilities, Capacity, ImageBuild, Limits
from castform.sandbox.errors import SandboxStartError
from castform.sandbox.request import check_request
from castform.sandbox.slots import Slots
from castform.sandbox.teardown import finish
from castform_sandbox_bubblewrap.box import BubblewrapBox
from castform_sandbox_bubblewrap.build import build_image
from castform_sandbox_bubblewrap.config import BubblewrapConfig
from castform_sandbox_bubblewrap.groups import find_groups, reap_groups
from castform_sandbox_bubblewrap.machine import Machine, find_machine
from castform_sandbox_bubblewrap.network import make_rules
from castform_sandbox_bubblewrap.opening import open_box
from castform_sandbox_bubblewrap.place import reap_boxes, state_folder
from castform_sandbox_bubblewrap.roots import Image, find_base, find_image

_TRIAL_LIMITS = Limits(cpus=1.0, memory_mb=256, pids=64, disk_mb=16)
_BUILD_PIDS = 1024


class BubblewrapProvider:
    """One object serves many boxes at a time."""

    name = "bubblewrap"

    def __init__(self, config: BubblewrapConfig | None = None) -> None:
        self._config = config or BubblewrapConfig()
        self._slots = Slots(self._config.max_boxes)
        self._machine: Machine | None = None
        self._base: Image | None = None
        self._open: set[BubblewrapBox] = set()

    async def check(self) -> Capabilities:
        """Start a box and throw it away; return what boxes hold to here."""
        return (await self._find_machine()).describe()

    async def measure_capacity(self, limits: Limits) -> Capacity:
        """Say how many boxes fit by this machine's CPUs, memory and disk."""

        def measure() -> Capacity:
            folder = state_folder(self._config)
            return measure_machine(limits, folder, limit=self._config.max_boxes, running=self._slots.taken)

        return await asyncio.to_thread(measure)

    async def start(self, request: BoxRequest) -> BubblewrapBox:
        """Build what has to be built and start a box; see the contract."""
        check_request(request)
        make_rules(request.network)  # raises for what is no host, before anything is started
        await self._slots.take()
        try:
            async with asyncio.timeout(request.start_timeout_seconds) as limit:
                box = await self._start(request)
        except BaseException as error:
            self._slots.give_back()
            if isinstance(error, TimeoutError) and limit.expired():
                raise SandboxStartError(
                    f"the sandbox was not started after {request.start_timeout_seconds:g} s",
                    hint="give it more start_timeout_seconds",
                ) from error
            raise
        self._open.add(box)
        box.on_closed = lambda: self._note_closed(box)
        return box

    async def reap(self) -> Sequence[str]:
        """Remove what boxes of dead owners left: those of this folder, and control groups of any."""
        return await asyncio.to_thread(self._reap)

    def _reap(self) -> list[str]:
        removed = reap_boxes(state_folder(self._config))
        groups = find_groups() if self._config.use_groups else None
        return removed if groups is None else list(dict.fromkeys([*removed, *reap_groups(groups)]))

    async def aclose(self) -> None:
        """Close every box that is still open."""
        await finish(self._close_all())

    async def _close_all(self) -> None:
        await asyncio.gather(*(box.close() for box in list(self._open)))

    def _note_closed(self, box: BubblewrapBox) -> None:
        self._open.discard(box)
        self._slots.give_back()

    async def _start(self, request: BoxRequest) -> BubblewrapBox:
        machine = await self._find_machine()
        image = await self._find_image(machine, request.image)
        box = await open_box(
            machine,
            await self._folder(),
            image,
            request.limits,
            labels=request.labels,
            env=request.env,
            workdir=request.workdir,
            user=request.user,
        )
        try:
            await box.set_network(request.network)
            if request.keep_entrypoint and image.entrypoint:
                box.start_background([*image.entrypoint, "sh", "-c", "sleep infinity"])
        except BaseException:
            await finish(box.close())
            raise
        return box

    async def _folder(self) -> Path:
        return await asyncio.to_thread(state_folder, self._config)

    async def _find_machine(self) -> Machine:
        """Return what this machine has, tried by a box; without disks of its own where none can be mounted."""
        if self._machine is None:
            machine = await asyncio.to_thread(find_machine, self._config)
            await self.reap()  # what runs that were killed have left is in the way of this one's
            try:
                await self._try(machine)
            except SandboxStartError:
                if machine.mkfs is None:
                    raise
                machine = dataclasses.replace(machine, mkfs=None)
                await self._try(machine)
            self._machine = machine
        return self._machine

    async def _try(self, machine: Machine) -> None:
        box = await open_box(
            machine, await self._folder(), await self._find_image(machine, None), _TRIAL_LIMITS
        )
        await box.close()

    async def _find_image(self, machine: Machine, image: str | ImageBuild | None) -> Image:
        folder = await self._folder()
        base = self._base
        if base is None or not await asyncio.to_thread(Path(base.root).is_dir):
            base = self._base = await find_base(folder, machine.first_id)
        if image is None:
            return base
        if isinstance(image, str):
            note = (
                f"the image {image!r} is not honoured: the box has this machine's programs and nothing of it"
            )
            return dataclasses.replace(base, notes=(note,))

        async def make(build: ImageBuild, on: Image, target: Path) -> Image:
            return await self._build(machine, build, on, target)

        return await find_image(folder, machine.first_id, image, base, make)

    async def _build(self, machine: Machine, build: ImageBuild, base: Image, target: Path) -> Image:
        """Run a Dockerfile in a box whose root is a folder, and keep the folder."""
        limits = Limits(
            cpus=None,
            memory_mb=self._config.build_memory_mb,
            pids=_BUILD_PIDS,
            disk_mb=self._config.build_disk_mb,
        )
        plain = dataclasses.replace(machine, mkfs=None)
        box = await open_box(plain, await self._folder(), base, limits)
        keep: Path | None = None
        try:
            image = await build_image(build, box, users=machine.first_id is not None)
            keep = target
        finally:
            await finish(box.close(keep_root=keep))
        return image
