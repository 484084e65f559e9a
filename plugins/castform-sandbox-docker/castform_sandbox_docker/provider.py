"""Boxes as containers of a Docker engine."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from castform.sandbox.archive import explain_local
from castform.sandbox.closing import Starts
from castform.sandbox.contract import BoxRequest, Capabilities, Capacity, ImageBuild, Limits, Sandbox
from castform.sandbox.errors import (
    MissingError,
    SandboxError,
    SandboxFileError,
    SandboxGoneError,
    SandboxStartError,
)
from castform.sandbox.owner import current_owner
from castform.sandbox.request import check_request
from castform.sandbox.slots import Slots
from castform.sandbox.teardown import finish
from castform.sandbox.trees import BEYOND_MEASURE
from castform_sandbox_docker.box import DockerBox, remove_container
from castform_sandbox_docker.capacity import measure
from castform_sandbox_docker.commands import Commands
from castform_sandbox_docker.config import DockerConfig
from castform_sandbox_docker.container import choose_user, make_options
from castform_sandbox_docker.disk import measure_folders
from castform_sandbox_docker.doors import Doors, Way
from castform_sandbox_docker.engine import Engine, explain_engine
from castform_sandbox_docker.host_view import HostView, open_host_view
from castform_sandbox_docker.images import find_image
from castform_sandbox_docker.inner_view import InnerView
from castform_sandbox_docker.life import Life
from castform_sandbox_docker.limits import check_limits
from castform_sandbox_docker.network import PublicNetwork
from castform_sandbox_docker.probe import describe, has_storage_size
from castform_sandbox_docker.reap import OWNER_FILE, is_own, reap_engine, reap_folders

_FOLDERS = "castform-docker"
"""Of folders with sockets, in the temporary folder; the user's number is added."""


class DockerProvider:
    """Starts containers. Makes no call to the engine until it has to."""

    def __init__(self, config: DockerConfig) -> None:
        self.name = "docker"
        self._config = config
        self._engine = Engine(config.host, timeout_seconds=config.engine_timeout_seconds)
        self._slots = Slots(config.max_boxes)
        self._boxes: set[DockerBox] = set()
        self._labels = current_owner().labels()
        self._public = PublicNetwork(self._engine, self._labels)
        self._reaped = False
        self._starts = Starts()
        self._storage_size: bool | None = None
        self._sees_boxes = config.outside_view and os.geteuid() == 0 and self._engine.socket_path is not None
        """Whether boxes are expected to be seen from outside, until one is not."""

    async def check(self) -> Capabilities:
        info = await self._get_info()
        return describe(
            info,
            storage_size=await self._has_storage_size(),
            local=self._engine.socket_path is not None,
            inside_view=self._choose_way() == "namespace",
        )

    async def measure_capacity(self, limits: Limits) -> Capacity:
        info = await self._get_info()
        with explain_engine():
            networks = await self._engine.call(lambda client: client.networks())
        return measure(
            info,
            networks,
            limits,
            local=self._engine.socket_path is not None,
            cap=self._config.max_boxes,
            running=self._slots.taken,
        )

    async def start(self, request: BoxRequest) -> Sandbox:
        check_request(request)
        await self._slots.take()
        try:
            async with asyncio.timeout(request.start_timeout_seconds) as limit:
                with self._starts.noted(limit):
                    return await self._start(request)
        except TimeoutError as error:
            self._slots.give_back()
            if not limit.expired():
                raise
            self._starts.check_open()
            raise SandboxStartError(
                f"the box was not built and started within {request.start_timeout_seconds} s",
                hint="raise start_timeout_seconds",
            ) from error
        except BaseException:
            self._slots.give_back()
            raise

    async def reap(self) -> Sequence[str]:
        folders = await asyncio.to_thread(reap_folders, self._folders)
        return [*await reap_engine(self._engine), *folders]

    async def aclose(self) -> None:
        await finish(self._close_all())

    async def _close_all(self) -> None:
        await self._starts.end(seconds=self._config.engine_timeout_seconds)
        ends = await asyncio.gather(*(box.close() for box in list(self._boxes)), return_exceptions=True)
        await self._public.remove()
        self._engine.close()
        for end in ends:
            if isinstance(end, BaseException):
                raise SandboxError(f"a sandbox could not be closed: {end}") from end

    @property
    def _folders(self) -> Path:
        return Path(tempfile.gettempdir()) / f"{_FOLDERS}-{os.geteuid()}"

    async def _get_info(self) -> Mapping[str, Any]:  # Any: JSON of the engine
        with explain_engine():
            info: Mapping[str, Any] = await self._engine.call(lambda client: client.info())
        if info.get("OSType", "linux") != "linux":
            raise MissingError(
                f"the engine runs {info['OSType']} containers", hint="switch it to Linux containers"
            )
        return info

    async def _has_storage_size(self) -> bool:
        if self._storage_size is None:
            self._storage_size = await has_storage_size(self._engine, await self._get_info(), self._labels)
        return self._storage_size

    def _choose_way(self) -> Way:
        if self._config.endpoint != "auto":
            return self._config.endpoint
        return "namespace" if self._sees_boxes else "socket"

    async def _start(self, request: BoxRequest) -> DockerBox:
        from docker.errors import APIError

        self._starts.check_open()
        if not self._reaped:
            self._reaped = True
            try:
                await self.reap()  # what runs that were killed left takes memory that this one needs
            except BaseException:
                self._reaped = False
                raise
        try:
            image = await find_image(self._engine, request.image, self._config)
        except SandboxFileError as error:
            raise SandboxStartError(f"the image cannot be built: {error}", hint=error.hint) from error
        storage_size = await self._has_storage_size()
        name = f"castform-{secrets.token_hex(6)}"
        way = self._choose_way()
        network = await self._public.get_name() if request.network.mode == "public" else "none"
        folder: Path | None = None
        life: Life | None = None
        try:
            if self._engine.socket_path is not None and way == "socket":
                folder = self._folders / name
                await finish(asyncio.to_thread(make_folder, folder, self._labels))
            made = await finish(
                self._engine.call(
                    lambda client: client.create_container(
                        **make_options(
                            client,
                            request,
                            image,
                            self._config,
                            name=name,
                            labels={**request.labels, **self._labels, "castform.box": name},
                            network=network,
                            folder=folder,
                            storage_size=storage_size,
                            inner=not self._sees_boxes,
                        )
                    )
                )
            )
            life = Life(self._engine, made["Id"], name, None)
            await finish(self._engine.call(lambda client: client.start(made["Id"])))
            return await self._open(request, image, life, way, folder, storage_size)
        except BaseException as error:
            await finish(self._undo(name, life, folder))
            if isinstance(error, APIError):
                raise SandboxStartError(
                    f"the engine starts no box of {_name_image(request)}: {error.explanation}",
                    hint=choose_hint(str(error.explanation)),
                ) from error
            if isinstance(error, SandboxGoneError):
                raise SandboxStartError(f"the box ended as it was started: {error}") from error
            if isinstance(error, SandboxFileError):
                raise SandboxStartError(f"no box was started: {error}", hint=error.hint) from error
            raise

    async def _open(
        self,
        request: BoxRequest,
        image: Mapping[str, Any],  # Any: JSON of the engine, here and below
        life: Life,
        way: Way,
        folder: Path | None,
        storage_size: bool,
    ) -> DockerBox:
        said = await self._engine.call(lambda client: client.inspect_container(life.container_id))
        if self._config.outside_view:
            life.view = open_host_view(life.container_id, int(said["State"]["Pid"]))
        await life.look()
        if life.view is None:
            self._sees_boxes = False
        if life.view is not None:
            check_limits(request.limits, life.view.groups.read)
        else:
            groups = await InnerView(life).read_groups()
            check_limits(request.limits, lambda controller, file: groups.get((controller, file)))
        if way == "namespace" and life.view is None:
            way = "socket"
        commands = Commands(life, user=choose_user(request, image))
        box = DockerBox(
            life=life,
            commands=commands,
            doors=Doors(life, commands, way=way, folder=folder),
            public=self._public,
            request=request,
            notes=self._make_notes(request, said, life.view),
            measure=None if storage_size else make_measure(life, said),
            on_close=self._forget,
        )
        self._boxes.add(box)
        if request.network.mode == "allowlist":
            try:
                await box.set_network(request.network)
            except BaseException:
                self._boxes.discard(box)
                box.drop_watch()
                raise
        return box

    def _make_notes(self, request: BoxRequest, said: Mapping[str, Any], view: HostView | None) -> list[str]:
        notes = []
        volumes = [mount for mount in said.get("Mounts") or () if mount.get("Type") == "volume"]
        if request.limits.disk_mb is not None and volumes and view is None:
            notes.append("what is written to the image's volumes does not count as disk")
        if request.network.mode == "public":
            notes.append(
                "the network is public: what this machine serves on all of its addresses is reachable too"
            )
        return notes

    async def _undo(self, name: str, life: Life | None, folder: Path | None) -> None:
        """Leave nothing of a start that did not succeed."""
        view = life.view if life is not None else None
        try:
            await remove_container(Life(self._engine, name, name, view))
        except SandboxError:
            pass  # what went wrong before is what is raised; the reaper comes back to the container
        finally:
            if view is not None:
                view.close()
            if folder is not None:
                await asyncio.to_thread(_remove_folder, folder)

    def _forget(self, box: DockerBox) -> None:
        if box in self._boxes:
            self._boxes.discard(box)
            self._slots.give_back()


def choose_hint(words: str) -> str | None:
    """Return what to do about the engine's words for a box that it does not start."""
    if "executable file not found" in words or "no such file or directory" in words:
        return "a box needs an image with /bin/sh and sleep"
    if "no space left on device" in words:
        return "make room on the engine's disk: `docker system df` shows what takes it"
    if "limit" in words or "cpu" in words.lower():
        return "the limits are set by `Limits`; None sets none"
    return None


def make_measure(life: Life, said: Mapping[str, Any]) -> Callable[[], Awaitable[int]]:
    """Return what measures the bytes that a box has written."""
    layer = ((said.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
    view = life.view
    if view is not None and layer:
        mounts = [mount["Source"] for mount in said.get("Mounts") or () if mount.get("Type") == "volume"]
        folders = [layer, *mounts]

        async def measure_here() -> int:
            return await asyncio.to_thread(measure_folders, folders, view=view)

        return measure_here

    async def ask() -> int:
        from docker.errors import APIError

        try:
            found = await life.engine.call(
                lambda client: client.containers(all=True, size=True, filters={"id": life.container_id})
            )
        except (APIError, MissingError):
            return 0  # whoever uses the box learns it
        size = int(found[0].get("SizeRw") or 0) if found else 0
        return size if size >= 0 else BEYOND_MEASURE  # so the engine says that it could not look at all

    return ask


def make_folder(folder: Path, labels: Mapping[str, str]) -> Path:
    """Make the folder of a box's sockets; nobody else on this machine gets as far as it.

    SandboxFileError where this machine's disk refuses; what was made of it is then the caller's to remove.
    """
    with explain_local(folder):
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        if not is_own(folder.parent):
            raise SandboxStartError(
                f"{folder.parent} is not this user's alone, so no sockets are put there",
                hint="remove it, or set TMPDIR to a folder of your own",
            )
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
        (folder / OWNER_FILE).write_text(json.dumps(dict(labels)), encoding="utf-8")
        (folder / OWNER_FILE).chmod(0o600)
    return folder


def _name_image(request: BoxRequest) -> str:
    image = request.image
    if isinstance(image, ImageBuild):
        return f"the image of {image.context / image.dockerfile}"
    return image or "its plain image"


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
