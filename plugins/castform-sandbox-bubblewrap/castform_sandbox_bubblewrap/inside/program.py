"""Starting one command below a process that every descendant of it stays below.

    init ── holder (takes over orphans, lives as long as one of them) ── the command ── …

So a timeout finds what started a session of its own, and a background server outlives its command. As in the
first process, nobody looks into these (`kernel.deny_looks`) until one becomes the command's program.
"""
# ruff: noqa: PTH123
# pathlib would be half of the start-up time

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as in init.py
import errno
import os
import resource

from castform_sandbox_bubblewrap.inside import files, kernel
from castform_sandbox_bubblewrap.inside.users import Identity, UnknownUserError, find_identity

TYPE_CHECKING = False
if TYPE_CHECKING:  # without `typing`: each import is part of a box's start
    from typing import Any

NOT_STARTED = 126
NOT_FOUND = 127
"""Exit codes of a command that never ran, as a shell has them."""


def hold(
    order: dict[str, Any], stdio: tuple[int, int, int], status_end: int
) -> None:  # Any: what the host has put in
    """Run in the holder, which is a fork of the first process. Never returns."""
    code = 70
    try:
        kernel.set_name(b"castform-holder")
        kernel.become_subreaper()
        try:
            first = os.fork()
        except OSError as error:  # the box has as many processes as it may
            os.write(status_end, b"failed " + os.fsencode(error.strerror or "") + b"\n")
            os._exit(0)
        if first == 0:
            _become_program(order, stdio, status_end)  # never returns
        null = os.open("/dev/null", os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        for number in {null, *stdio} - {0, 1, 2}:
            os.close(number)
        while True:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                break
            if pid == first:
                ended = os.waitstatus_to_exitcode(status)
                os.write(status_end, b"exit %d\n" % (128 - ended if ended < 0 else ended))
                os.close(status_end)
        code = 0
    finally:
        os._exit(code)


def _become_program(
    order: dict[str, Any], stdio: tuple[int, int, int], status_end: int
) -> None:  # Any: what the host has put in
    code = 70
    try:
        os.setsid()
        for number, descriptor in enumerate(_above(stdio)):
            os.dup2(descriptor, number)
        os.closerange(3, status_end)
        os.closerange(status_end + 1, 1 << 16)  # and this one closes as the program starts
        for name in ("SIGPIPE", "SIGXFSZ", "SIGCHLD", "SIGINT"):
            _signal.signal(getattr(_signal, name), _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
        _set_limits(order.get("rlimits", {}))
        if "call" in order:
            os.close(status_end)
            code = files.serve(order["call"], order["arguments"])
        else:
            code = _exec(order, status_end)
    finally:
        os._exit(code)


def _exec(order: dict[str, Any], status_end: int) -> int:  # Any: what the host has put in
    """Become the program; return the exit code where that cannot be."""
    argv, env = order["argv"], order["env"]
    try:
        who = find_identity(order["user"])
        _become(who)
    except (UnknownUserError, OSError) as error:
        os.write(status_end, b"refused " + os.fsencode(str(error)[:500].replace("\n", " ")) + b"\n")
        return NOT_STARTED
    env.setdefault("HOME", who.home)
    try:
        os.chdir(order["cwd"])
    except OSError as error:
        return _complain(f"castform: cannot change to {order['cwd']}: {error.strerror}", NOT_STARTED)
    failure = _search(argv, env)
    missing = failure.errno in (errno.ENOENT, errno.ENOTDIR)
    return _complain(f"castform: {argv[0]}: {failure.strerror}", NOT_FOUND if missing else NOT_STARTED)


def _search(argv: list[str], env: dict[str, str]) -> OSError:
    """Become the program by the PATH of its own variables; return why not, a refusal before an absence.

    Not by os.execvpe, which imports modules that another user cannot read here.
    """
    folders = [""] if "/" in argv[0] else [f"{folder or '.'}/" for folder in env.get("PATH", "").split(":")]
    failure = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in folders:
        try:
            os.execve(f"{folder}{argv[0]}", argv, env)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                failure = error
    return failure


def _become(who: Identity) -> None:
    os.umask(0o022)
    if who.uid == 0 and who.gid == 0 and not who.groups:
        return
    os.setgroups(list(who.groups))
    os.setresgid(who.gid, who.gid, who.gid)
    os.setresuid(who.uid, who.uid, who.uid)


def _set_limits(limits: dict[str, int]) -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("0")  # the first process is spared before all others
    except OSError:
        pass
    for name, value in limits.items():
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (lower, lower))


def _above(stdio: tuple[int, int, int]) -> list[int]:
    """Return copies that dup2 onto 0, 1 and 2 cannot overwrite on its way."""
    return [os.dup(descriptor) if descriptor < 3 else descriptor for descriptor in stdio]


def _complain(words: str, code: int) -> int:
    os.write(2, os.fsencode(words + "\n"))
    return code
