"""Runs between castform and bwrap: mounts the box's disk, enters its user ids.

    python -I -S -c 'import sys; sys.path.append(FOLDER); import launcher; launcher.run(ORDER)'

Standard library only, and little of it, since it is run as a program. ORDER is a marshalled dict in
hexadecimal: `disk`, `stages`, `ids` and `command`, see command.py. Every mount is made in a mount namespace of its
own, so that nothing is mounted on the host and all of it goes with the box's last process.
"""
# ruff: noqa: PTH101, PTH102, PTH103, PTH108, PTH112, PTH123
# pathlib would be half of the start-up time

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # without `typing`: each import is part of a box's start
    from typing import Any

STAGE = "/tmp"
"""Covered in the launcher's own namespace; every user id can reach it."""
_NEW_NAMESPACE, _NEW_USER = 0x00020000, 0x10000000
_NOSUID, _NODEV, _BIND, _REC, _PRIVATE = 2, 4, 4096, 16384, 1 << 18
_SET_SECUREBITS, _KEEP_CAPABILITIES = 28, 4
_LIMITS = {"max_user_namespaces": "0", "max_inotify_instances": "32"}
"""Of the box's user namespace, by their names in /proc/sys/user."""
_LOOP_CONFIGURE, _LOOP_GET_FREE, _AUTOCLEAR = 0x4C0A, 0x4C82, 4
_ATTEMPTS = 64

_libc = ctypes.CDLL(None, use_errno=True)


def main(order: dict[str, Any]) -> None:  # Any: what command.py has put in
    """Become bwrap."""
    if order["ids"] is not None:
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("-500")  # the first process; what it starts sets itself back to 0
        except OSError:
            pass
        stage(order)
        enter_user_namespace(order["ids"])
    os.execvp(order["command"][0], order["command"])


def stage(order: dict[str, Any]) -> None:  # Any: what command.py has put in
    """Put what bwrap binds below a folder that the box's own root can reach."""
    unshare(_NEW_NAMESPACE)
    mount(None, "/", None, _REC | _PRIVATE)
    disk = order["disk"]
    opened = {name: os.open(path, os.O_PATH) for name, path in order["stages"].items()}
    image = None if disk is None else attach(disk["image"])
    lower = None
    if disk is not None:
        lower = os.open(disk["lower"], os.O_PATH)
        os.unlink(disk["image"])  # it lives as long as it is mounted
    mount("tmpfs", STAGE, "tmpfs", _NOSUID | _NODEV, "mode=0755,size=1m")
    for name, descriptor in opened.items():
        target = f"{STAGE}/{name}"
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o644))
        mount(f"/proc/self/fd/{descriptor}", target, None, _BIND | _REC)
        os.close(descriptor)
    if image is not None and lower is not None:
        device, path = image
        os.mkdir(f"{STAGE}/disk")
        mount(path, f"{STAGE}/disk", "ext4", _NOSUID | _NODEV, "barrier=0")  # it is never read again
        os.close(device)
        for name in ("upper", "work"):
            os.makedirs(f"{STAGE}/disk/{name}", exist_ok=True)
        owner = os.fstat(lower)
        os.chown(f"{STAGE}/disk/upper", owner.st_uid, owner.st_gid)
        os.chmod(f"{STAGE}/disk/upper", 0o755)
        os.mkdir(f"{STAGE}/root")
        layers = f"lowerdir=/proc/self/fd/{lower},upperdir={STAGE}/disk/upper,workdir={STAGE}/disk/work"
        mount("overlay", f"{STAGE}/root", "overlay", _NOSUID | _NODEV, layers)
        os.close(lower)


def attach(image: str) -> tuple[int, str]:
    """Return a loop device for a file, open, and its path. It goes when its last user does."""
    with open(image, "r+b") as file, open("/dev/loop-control", "r+b", buffering=0) as control:
        for _ in range(_ATTEMPTS):
            number = fcntl.ioctl(control, _LOOP_GET_FREE)
            path = f"/dev/loop{number}"
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            info = struct.pack("=5Q4I64s64s32s2Q", *[0] * 8, _AUTOCLEAR, b"", b"", b"", 0, 0)  # loop_info64
            config = bytearray(struct.pack("=II", file.fileno(), 0) + info + bytes(64))
            try:
                fcntl.ioctl(device, _LOOP_CONFIGURE, config)
            except BlockingIOError:
                os.close(device)
            except OSError as error:
                os.close(device)
                if error.errno != 16:  # EBUSY: another box was faster
                    raise
            else:
                return device, path
    raise OSError(16, "no loop device is free")


def enter_user_namespace(ids: dict[str, int]) -> None:
    """Become root of a new user namespace whose ids are nobody's outside, and which can have no other in it.

    It is made as that nobody: what the kernel counts for each user (inotify instances, queued signals, message
    queues) is counted for the maker of a namespace too, and root of this machine must not run out of it.
    """
    ready_end, ready_start = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.read(ready_end, 1)
            for kind in ("uid", "gid"):
                with open(f"/proc/{parent}/{kind}_map", "w") as file:
                    file.write(f"0 {ids['first']} {ids['count']}")
            code = 0
        finally:
            os._exit(code)
    _libc.prctl(_SET_SECUREBITS, _KEEP_CAPABILITIES, 0, 0, 0)  # some kernels let only the capable make one
    os.seteuid(ids["first"])
    unshare(_NEW_USER)
    os.write(ready_start, b"x")
    if os.waitpid(child, 0)[1] != 0:
        raise OSError(1, "the user ids of the box cannot be mapped")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    for name, value in _LIMITS.items():
        with open(f"/proc/sys/user/{name}", "w") as file:
            file.write(value)
    os.close(ready_end)
    os.close(ready_start)


def unshare(flags: int) -> None:
    """Leave namespaces that are shared with the parent."""
    if _libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")


def mount(source: str | None, target: str, kind: str | None, flags: int, words: str | None = None) -> None:
    """Mount, or raise OSError that says what."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, words)]
    if _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount of {kind or 'a folder'} on {target}: {os.strerror(number)}")


def run(order: str) -> None:
    """Become bwrap, or end with what went wrong."""
    try:
        main(marshal.loads(bytes.fromhex(order)))
    except OSError as failure:
        sys.exit(f"launcher: {failure}")
