"""The command line of bwrap for one box, and of the launcher before it."""

from __future__ import annotations

import marshal
import sys
from pathlib import Path
from typing import Any

from castform_sandbox_bubblewrap import launcher
from castform_sandbox_bubblewrap.base import LIBRARIES
from castform_sandbox_bubblewrap.interpreter import HOME, PROGRAM, START, find_interpreter
from castform_sandbox_bubblewrap.machine import Machine
from castform_sandbox_bubblewrap.place import BoxPlace

CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
)  # fmt: skip
"""Of root in a box, over the box's own user ids and namespaces; none over the host's."""
_SHM_BYTES = 64 << 20
_LAUNCH = "import sys; sys.path.append(sys.argv[1]); import launcher; launcher.run(sys.argv[2])"


def make_command(
    machine: Machine,
    place: BoxPlace,
    *,
    link: int,
    info: int,
    seccomp: int | None,
    shm_bytes: int | None = None,
) -> list[str]:
    """Return the command that starts a box's first process.

    `link`, `info`, `seccomp`: inherited descriptors of the control socket, of bwrap's own report and
    of the filter. Nothing of a task's environment is on it.
    """
    python = find_interpreter()
    stages = {name: path for name, path, _ in python.binds}
    if place.disk is None:
        stages["root"] = str(place.root)
    staged = machine.first_id is not None

    def source(name: str) -> str:
        return f"{launcher.STAGE}/{name}" if staged else stages[name]

    words = [
        machine.bwrap,
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    if not staged:
        words += ["--unshare-user", "--uid", "0", "--gid", "0", "--disable-userns"]
    words += ["--hostname", "sandbox", "--as-pid-1", "--new-session", "--info-fd", str(info)]
    words += ["--cap-drop", "ALL", *(word for name in CAPABILITIES for word in ("--cap-add", name))]
    if seccomp is not None:
        words += ["--seccomp", str(seccomp)]
    words += ["--bind", source("root"), "/", "--ro-bind", "/usr", "/usr"]
    for name in LIBRARIES:
        host = Path("/") / name
        if host.is_dir() and not host.is_symlink():
            words += ["--ro-bind", str(host), str(host)]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--size", str(shm_bytes or _SHM_BYTES), "--tmpfs", "/dev/shm", "--chmod", "1777", "/dev/shm"]
    for name, _, target in python.binds:
        words += ["--ro-bind", source(name), target]
    for mask in python.masks:
        words += ["--size", "4096", "--tmpfs", mask, "--remount-ro", mask]
    words += ["--remount-ro", "/dev"]
    words += ["--clearenv", "--chdir", "/"]
    if python.libraries is not None:
        words += ["--setenv", "LD_LIBRARY_PATH", python.libraries]
    words += ["--", PROGRAM, "-S", "-s", "-P", "-B", "-c", START.format(home=HOME, descriptor=link)]
    order: dict[str, Any] = {  # Any: what marshal takes
        "ids": None if machine.first_id is None else {"first": machine.first_id, "count": machine.count_ids},
        "stages": stages,
        "disk": None if place.disk is None else {"image": str(place.disk), "lower": str(place.root)},
        "command": words,
    }
    folder = str(Path(launcher.__file__).parent)
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, folder, marshal.dumps(order).hex()]
