"""The `process` provider: for programs that are trusted, and for tests of what uses sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from castform.errors import ConfigError
from castform.home import castform_home
from castform.sandbox.capacity import measure_machine
from castform.sandbox.closing import Starts
from castform.sandbox.contract import BoxRequest, Capabilities, Capacity, Enforcement, Limits, Sandbox
from castform.sandbox.errors import SandboxError, SandboxFileError, SandboxStartError, UsageError
from castform.sandbox.owner import Owner, current_owner, is_alive
from castform.sandbox.process.box import ProcessBox, check_user
from castform.sandbox.process.tree import BOX_MARK, can_find, kill_members
from castform.sandbox.request import check_request
from castform.sandbox.slots import Slots
from castform.sandbox.teardown import finish
from castform.sandbox.trees import remove_tree

OWNER_FILE = "owner.json"
_ENDING_SECONDS = 30.0
"""For starts that are under way as the provider is closed."""


class ProcessProvider:
    """Runs programs as they are, with limits. It isolates nothing: its capabilities say so."""

    name = "process"

    def __init__(self, *, root: str | None = None, max_boxes: int | None = None, run: str = "") -> None:
        """`root`: the folder that boxes' folders lie in (default: below CASTFORM_HOME).

        `max_boxes`: most at a time, those that start included; others wait. `run`: goes to the owner's labels.
        """
        self._root = Path(root).expanduser().absolute() if root else castform_home() / "sandboxes" / "process"
        if max_boxes is not None and (type(max_boxes) is not int or max_boxes < 1):
            raise ConfigError(
                f"max_boxes is {max_boxes!r}, and has to be a whole number of at least 1",
                hint="leave it out for as many boxes as are asked for",
            )
        self._slots = Slots(max_boxes)
        self._run = run
        self._boxes: set[ProcessBox] = set()
        self._starts = Starts()
        self._reaped = False

    async def check(self) -> Capabilities:
        watched: Enforcement = "watched" if can_find() else "not enforced"
        return Capabilities(
            isolated=False,
            cpus="not enforced",
            memory=watched,
            pids=watched,
            disk="watched",
            networks=frozenset({"public"}),
            users=False,
            images=False,
            notes=(
                "unsafe: programs run as the user who started castform and can read, change and reach what that user can",
                "paths outside the sandbox's own folder are this machine's",
            ),
        )

    async def measure_capacity(self, limits: Limits) -> Capacity:
        return measure_machine(
            limits, self._existing_root(), limit=self._slots.limit, running=self._slots.taken
        )

    async def start(self, request: BoxRequest) -> Sandbox:
        check_user(request.user)
        if request.image is not None:
            raise UsageError(
                "the process provider has no images: its programs are this machine's",
                hint="use the docker or the bubblewrap provider",
            )
        check_request(request)
        if not self._reaped:  # what an earlier run left when it was killed
            self._reaped = True
            await self.reap()
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
                f"the sandbox was not started within {request.start_timeout_seconds:g} s",
                hint="raise start_timeout_seconds",
            ) from error
        except BaseException:
            self._slots.give_back()
            raise

    async def reap(self) -> Sequence[str]:
        removed = []
        for folder in await asyncio.to_thread(self._list_folders):
            owner = await asyncio.to_thread(_read_owner, folder)
            if owner is None or is_alive(owner):
                continue
            await kill_members(f"{BOX_MARK}={folder.name.removeprefix('.new-')}")
            await asyncio.to_thread(remove_tree, folder)
            removed.append(folder.name)
        return removed

    async def aclose(self) -> None:
        await finish(self._close_all())

    async def _close_all(self) -> None:
        await self._starts.end(seconds=_ENDING_SECONDS)
        ends = await asyncio.gather(*(box.close() for box in list(self._boxes)), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise SandboxError(f"a sandbox could not be closed: {end}") from end

    async def _start(self, request: BoxRequest) -> Sandbox:
        self._starts.check_open()
        id = f"box-{secrets.token_hex(8)}"
        folder = self._root / id
        try:
            labels = {**request.labels, **current_owner(self._run).labels()}
            await finish(asyncio.to_thread(_make_folder, folder, labels))  # a thread cannot be stopped
            box = ProcessBox(id, folder, request, self._forget)
            await box.open()
        except BaseException as error:
            await finish(asyncio.to_thread(remove_tree, folder))
            if isinstance(error, OSError | SandboxFileError):
                raise SandboxStartError(
                    f"the sandbox's folders cannot be made: {error}",
                    hint="make room there, or name another folder by the option root",
                ) from error
            raise
        self._boxes.add(box)
        return box

    def _forget(self, box: ProcessBox) -> None:
        if box in self._boxes:
            self._boxes.discard(box)
            self._slots.give_back()

    def _list_folders(self) -> list[Path]:
        return sorted([*self._root.glob("box-*"), *self._root.glob(".new-box-*")])

    def _existing_root(self) -> Path:
        return next(place for place in (self._root, *self._root.parents) if place.exists())


def _make_folder(folder: Path, labels: dict[str, str]) -> None:
    """Make a box's folder with its owner in it from the first moment on."""
    beside = folder.with_name(f".new-{folder.name}")
    try:
        beside.mkdir(parents=True, mode=0o700)
        (beside / OWNER_FILE).write_text(json.dumps(labels), encoding="utf-8")
        beside.rename(folder)
    except OSError:  # a full disk: nobody could tell later whose it is
        remove_tree(beside)
        raise


def _read_owner(folder: Path) -> Owner | None:
    with contextlib.suppress(OSError, ValueError):
        labels = json.loads((folder / OWNER_FILE).read_text(encoding="utf-8"))
        if isinstance(labels, dict):
            return Owner.from_labels({str(name): str(value) for name, value in labels.items()})
    return None
