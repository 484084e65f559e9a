"""The few calls to the kernel that Python has no function for."""

from __future__ import annotations

import ctypes
import os

_SET_DUMPABLE = 4
_SET_NAME = 15
_CAPBSET_DROP = 24
_SET_CHILD_SUBREAPER = 36
_LAST_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int | bytes) -> None:
    if _libc.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def deny_looks() -> None:
    """Let nobody of the box read the memory or take descriptors of this process and its forks, until they exec."""
    _prctl(_SET_DUMPABLE, 0)


def set_name(name: bytes) -> None:
    """Name this process, as ps and pkill see it; at most 15 bytes."""
    _prctl(_SET_NAME, name)


def become_subreaper() -> None:
    """Become the parent of every descendant whose parent dies."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def limit_bounding_set(kept: frozenset[int]) -> None:
    """Give up, for this process and all that come from it, every capability that is not `kept`."""
    for number in range(_LAST_CAPABILITY + 1):
        if number in kept:
            continue
        try:
            _prctl(_CAPBSET_DROP, number)
        except OSError:  # the kernel knows no further one, or this process may not
            return
