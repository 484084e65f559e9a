"""What this machine lets boxes of bubblewrap have, found by trying."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from castform.sandbox.contract import Capabilities, Enforcement
from castform.sandbox.errors import MissingError
from castform_sandbox_bubblewrap import seccomp
from castform_sandbox_bubblewrap.base import LIBRARIES
from castform_sandbox_bubblewrap.config import BubblewrapConfig
from castform_sandbox_bubblewrap.groups import Groups, find_groups

COUNT_IDS = 65_536
_TRY_SECONDS = 20.0
_MAKERS = ("mkfs.ext4", "/sbin/mkfs.ext4", "/usr/sbin/mkfs.ext4")


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What was found."""

    bwrap: str
    first_id: int | None
    """The host's id that is root in a box; None where this process may not map ids and is root there itself."""
    count_ids: int
    groups: Groups | None
    mkfs: str | None
    """The program that makes disks; None where boxes have no disk of their own."""
    filtered: bool

    def describe(self) -> Capabilities:
        """Return what boxes hold to here."""
        controllers = set() if self.groups is None else set(self.groups.places)
        notes = [
            "FROM and image names are not honoured: a box has this machine's /usr, read-only",
            "a public network is HTTP and HTTPS to named hosts through a proxy; nothing else gets out",
        ]
        if self.first_id is None:
            notes.append("not root here: commands run as root of the box only, which is this user outside")
        if "memory" not in controllers:
            notes.append("no control group for memory: it is looked at about once a second")
        if self.mkfs is None:
            notes.append(
                "the disk is looked at about once a second, deleted files that are open are not seen"
            )
        if not self.filtered:
            notes.append("no filter of system calls for this architecture")
        return Capabilities(
            isolated=True,
            cpus="enforced" if "cpu" in controllers else "not enforced",
            memory="enforced" if "memory" in controllers else "watched",
            pids="enforced" if "pids" in controllers else self._pids_by_user(),
            disk="enforced" if self.mkfs is not None else "watched",
            networks=frozenset({"none", "allowlist", "public"}),
            users=self.first_id is not None,
            images=False,
            notes=tuple(notes),
        )

    def _pids_by_user(self) -> Enforcement:
        """A user namespace counts processes for itself since Linux 5.14."""
        release = tuple(
            int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit()
        )
        return "enforced" if release >= (5, 14) else "not enforced"


def find_machine(config: BubblewrapConfig) -> Machine:
    """Look for what boxes need. MissingError, with the way out, where there are none to be had."""
    if sys.platform != "linux":
        raise MissingError("bubblewrap needs Linux", hint="use the docker provider")
    bwrap = shutil.which(config.bwrap)
    if bwrap is None:
        raise MissingError(
            f"the program {config.bwrap} is not installed",
            hint="apt-get install bubblewrap, or dnf install bubblewrap",
        )
    _try_bwrap(bwrap)
    root = os.geteuid() == 0
    mkfs = next((found for name in _MAKERS if (found := shutil.which(name))), None)
    disks = root and config.use_disks and Path("/dev/loop-control").exists()
    return Machine(
        bwrap=bwrap,
        first_id=config.first_host_id if root else None,
        count_ids=COUNT_IDS,
        groups=find_groups() if config.use_groups else None,
        mkfs=mkfs if disks else None,
        filtered=seccomp.has_filter(),
    )


def _try_bwrap(bwrap: str) -> None:
    """Run `true` in namespaces of every kind that boxes have."""
    words = [
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--disable-userns",
    ]
    command = [bwrap, *words, *_bind_programs(), "--proc", "/proc", "--dev", "/dev", "--", "true"]
    try:
        tried = subprocess.run(
            command, capture_output=True, timeout=_TRY_SECONDS, env={"PATH": "/usr/bin:/bin"}, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MissingError("bwrap does not answer") from error
    if tried.returncode != 0:
        words_of_it = tried.stderr.decode("utf-8", "replace").strip()[-400:]
        raise MissingError(
            f"bwrap cannot make namespaces here: {words_of_it}",
            hint="allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), "
            "or use a newer bubblewrap than 0.7",
        )


def _bind_programs() -> list[str]:
    """Return words that bind what programs need: not all of /, where mounts of others come and go meanwhile."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in LIBRARIES:
        place = Path("/") / name
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), str(place)]
        elif place.is_dir():
            words += ["--ro-bind", str(place), str(place)]
    return words
