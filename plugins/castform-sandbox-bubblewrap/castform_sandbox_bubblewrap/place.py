"""Where a box lies on the host, who owns it, and removing what a dead owner left.

FOLDER/boxes/ID/box.json    owner, groups, the first process
                root/       of a box without a disk of its own
                disk        until it is mounted
FOLDER/images/HASH/         root/ and image.json, see roots.py
FOLDER/disks/               empty disks, one a size, to copy
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from castform.sandbox.errors import MissingError, SandboxStartError
from castform.sandbox.owner import Owner, current_owner, is_alive
from castform.sandbox.state import sandboxes_folder
from castform.sandbox.trees import remove_tree
from castform_sandbox_bubblewrap.config import BubblewrapConfig
from castform_sandbox_bubblewrap.groups import remove_groups
from castform_sandbox_bubblewrap.machine import Machine

_MAKE_SECONDS = 60.0
_RECORD = "box.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class BoxPlace:
    """What a box has on the host."""

    id: str
    folder: Path
    root: Path
    """Its root, or what lies below it where it has a disk."""
    disk: Path | None

    def write_record(
        self, *, groups: Sequence[Path], labels: Mapping[str, str], pid: int | None = None
    ) -> None:
        """Write down what a reaper needs, whole or not at all."""
        record = {
            "owner": current_owner().labels(),
            "groups": [str(group) for group in groups],
            "labels": dict(labels),
            "pid": pid,
            "start": None if pid is None else read_start(pid),
        }
        beside = self.folder / f"{_RECORD}.new"
        beside.write_text(json.dumps(record, indent=1))
        beside.replace(self.folder / _RECORD)


def state_folder(config: BubblewrapConfig) -> Path:
    """Return the provider's folder, made and closed to others."""
    folder = config.folder or sandboxes_folder() / "bubblewrap"
    try:
        for name in ("boxes", "images", "disks", "locks"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise MissingError(
            f"the folder of sandboxes {folder} cannot be made: {error.strerror}",
            hint="set CASTFORM_HOME, or the provider's option `folder`, to a folder that can be written",
        ) from error
    return folder


def make_id() -> str:
    """Return a new box's id."""
    return f"bwrap-{secrets.token_hex(6)}"


def make_place(
    folder: Path,
    name: str,
    machine: Machine,
    image: Path,
    disk_mb: int | None,
    *,
    groups: Sequence[Path] = (),
    labels: Mapping[str, str] | None = None,
) -> BoxPlace:
    """Make a box's folder, with a copy of the image's root or an empty disk over it. Blocks.

    Its record is there before what takes long to make: whoever is killed meanwhile leaves what can be reaped.
    """
    own = folder / "boxes" / name
    own.mkdir(mode=0o700)
    has_disk = machine.mkfs is not None
    place = BoxPlace(
        id=name,
        folder=own,
        root=image if has_disk else own / "root",
        disk=own / "disk" if has_disk else None,
    )
    place.write_record(groups=groups, labels=labels or {})
    if machine.mkfs is not None and place.disk is not None:
        _make_disk(folder / "disks", machine.mkfs, _size_of(disk_mb, folder), place.disk)
    else:
        copy_root(image, place.root)
    return place


def copy_root(source: Path, target: Path) -> None:
    """Copy a root that nobody writes to: shared blocks where the disk can, no hard links."""
    copied = subprocess.run(
        ["cp", "-a", "--reflink=auto", "--", str(source), str(target)], capture_output=True, check=False
    )
    if copied.returncode != 0:
        raise SandboxStartError(
            f"the sandbox's root cannot be copied: {copied.stderr.decode('utf-8', 'replace').strip()[-400:]}"
        )


def reap_boxes(folder: Path) -> list[str]:
    """Remove what boxes of dead owners left; return their ids. Blocks."""
    removed: list[str] = []
    for own in sorted((folder / "boxes").iterdir()):
        try:
            record = json.loads((own / _RECORD).read_text())
        except (OSError, ValueError):
            continue  # not written yet, or no box's
        owner = Owner.from_labels(record.get("owner", {}))
        if owner is None or is_alive(owner):
            continue
        if owner.boot == current_owner().boot:  # of another boot the numbers are somebody else's
            _kill_first_process(record.get("pid"), record.get("start"))
            groups = [Path(group) for group in record.get("groups", [])]
            remove_groups([group for group in groups if group.name.partition(".")[0] == own.name])
        remove_tree(own)
        removed.append(own.name)
    return removed


def read_start(pid: int) -> str | None:
    """Return when a process started, in the kernel's ticks; None when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _kill_first_process(pid: object, start: object) -> None:
    if not isinstance(pid, int) or not start:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(pid)
        try:
            if (
                read_start(pid) == start
            ):  # asked while the descriptor is open: it is this process and no other
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _size_of(disk_mb: int | None, folder: Path) -> int:
    """Return the MiB of a disk; without a limit, the power of two below what is free."""
    if disk_mb is not None:
        return max(2, disk_mb)
    free = shutil.disk_usage(folder).free >> 20
    return 1 << max(10, free.bit_length() - 1)


def _make_disk(folder: Path, mkfs: str, size_mb: int, target: Path) -> None:
    empty = folder / f"{size_mb}.ext4"
    if not empty.exists():
        beside = folder / f"{size_mb}.{secrets.token_hex(4)}"
        try:
            with beside.open("xb") as file:
                file.truncate(size_mb << 20)
            options = ["-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1"]
            made = subprocess.run(
                [mkfs, *options, str(beside)], capture_output=True, timeout=_MAKE_SECONDS, check=False
            )
            if made.returncode != 0:
                raise SandboxStartError(
                    f"no disk can be made: {made.stderr.decode('utf-8', 'replace').strip()[-400:]}"
                )
            beside.replace(empty)
        except subprocess.TimeoutExpired as error:
            raise SandboxStartError(
                f"no disk can be made: {mkfs} took longer than {_MAKE_SECONDS:g} s"
            ) from error
        finally:
            beside.unlink(missing_ok=True)
    _copy_sparse(empty, target)


def _copy_sparse(source: Path, target: Path) -> None:
    with source.open("rb") as read, target.open("xb") as written:
        size = os.fstat(read.fileno()).st_size
        written.truncate(size)
        place = 0
        while place < size:
            try:
                begin = os.lseek(read.fileno(), place, os.SEEK_DATA)
            except OSError:  # nothing but a hole is left
                break
            place = os.lseek(read.fileno(), begin, os.SEEK_HOLE)
            while begin < place:
                data = os.pread(read.fileno(), min(1 << 20, place - begin), begin)
                os.pwrite(written.fileno(), data, begin)
                begin += len(data)
