"""The filter of system calls that every program of a box runs under, as a program for the kernel.

It closes what has nothing to do with a program's own work and has a history of ways out. What is
refused says "operation not permitted"; calls of another architecture do not exist.
"""

from __future__ import annotations

import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_X32 = 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_SOCKET = {"x86_64": 41, "aarch64": 198}
_FAMILIES = (1, 2, 10, 16)
"""Unix, IPv4, IPv6, netlink. Others are not all confined by a network namespace: a virtual machine's
sockets (AF_VSOCK) reach its host from any."""
_NEW_EVERYWHERE = (*range(425, 434), 442, 467)
"""io_uring, and the mount calls that have one number on every architecture."""
_REFUSED = {
    # acct add_key bpf clock_adjtime clock_settime delete_module fanotify_init finit_module init_module
    # ioperm iopl kexec_file_load kexec_load keyctl mount name_to_handle_at open_by_handle_at
    # perf_event_open pivot_root quotactl reboot request_key setns settimeofday swapoff swapon syslog
    # adjtimex umount2 userfaultfd vhangup
    "x86_64": (
        163, 248, 321, 305, 227, 176, 300, 313, 175, 173, 172, 320, 246, 250, 165, 303, 304,
        298, 155, 179, 169, 249, 308, 164, 168, 167, 103, 159, 166, 323, 153,
    ),
    "aarch64": (
        89, 217, 280, 266, 112, 106, 262, 273, 105, 294, 104, 219, 40, 264, 265,
        241, 41, 60, 142, 218, 268, 170, 225, 224, 116, 171, 39, 282, 58,
    ),
}  # fmt: skip


def has_filter(machine: str | None = None) -> bool:
    """Say whether there is a filter for this machine's architecture."""
    return (machine or platform.machine()) in _AUDIT


def make_filter(machine: str | None = None) -> bytes:
    """Return the filter as bwrap's `--seccomp` reads it: 8 bytes an instruction. KeyError for other machines."""
    name = machine or platform.machine()
    refused = sorted({*_REFUSED[name], *_NEW_EVERYWHERE})
    code = [
        _pack(_LOAD, value=_ARCHITECTURE),
        _pack(_EQUAL, 1, 0, _AUDIT[name]),
        _pack(_RETURN, value=_ERRNO | _ENOSYS),
        _pack(_LOAD, value=_NUMBER),
    ]
    if name == "x86_64":
        code += [_pack(_AT_LEAST, 0, 1, _X32), _pack(_RETURN, value=_ERRNO | _ENOSYS)]
    code += [
        _pack(_EQUAL, 0, 4, _IOCTL[name]),
        _pack(_LOAD, value=_SECOND_ARGUMENT),
        _pack(_EQUAL, 1, 0, _TIOCSTI),
        _pack(_EQUAL, 0, 1, _TIOCLINUX),
        _pack(_RETURN, value=_ERRNO | _EPERM),
        _pack(_LOAD, value=_NUMBER),
    ]
    code += [
        _pack(_EQUAL, 0, len(_FAMILIES) + 3, _SOCKET[name]),
        _pack(_LOAD, value=_FIRST_ARGUMENT),
        *(_pack(_EQUAL, len(_FAMILIES) - place, 0, family) for place, family in enumerate(_FAMILIES)),
        _pack(_RETURN, value=_ERRNO | _EAFNOSUPPORT),
        _pack(_LOAD, value=_NUMBER),
    ]
    for number in refused:
        code += [_pack(_EQUAL, 0, 1, number), _pack(_RETURN, value=_ERRNO | _EPERM)]
    code.append(_pack(_RETURN, value=_ALLOW))
    return b"".join(code)


def _pack(code: int, if_true: int = 0, if_false: int = 0, value: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
