"""What a box can be asked for at all: wrong numbers, words and paths are told before anything is tried.

Shared by providers, so that a request that one refuses is not half done by another. Every check
raises UsageError and names the value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from castform.sandbox.contract import BoxRequest, ImageBuild, Limits, NetworkMode, NetworkPolicy
from castform.sandbox.errors import UsageError

_MOST_CPUS = 8192.0
_MOST_MB = 1 << 30
_MOST_PIDS = 1 << 22
"""The kernel's own bound."""
_LAST_ID = (1 << 31) - 1
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@$-]*(?::[A-Za-z0-9_.][A-Za-z0-9_.@$-]*)?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")


def check_request(request: BoxRequest) -> None:
    """Check every field of a request. What only one provider knows, as an image's users, is its own to check."""
    _check_limits(request.limits)
    _check_image(request.image)
    if request.workdir is not None:
        check_path(request.workdir, what="workdir")
    _check_words(request.env, "env")
    _check_words(request.labels, "labels")
    check_user(request.user)
    reserved = [name for name in request.labels if name.startswith("castform.")]
    if reserved:
        raise UsageError(f"labels that begin with castform. are castform's own: {', '.join(reserved)}")
    _check_network(request.network)
    _check_seconds("start_timeout_seconds", request.start_timeout_seconds)


def check_exec(
    command: Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    user: str | None,
    timeout_seconds: float | None,
    max_output_bytes: int,
) -> None:
    """Check what `Sandbox.exec` takes."""
    if isinstance(command, str | bytes) or not command or not all(isinstance(word, str) for word in command):
        raise UsageError(
            f"the command {command!r} is not a list of words" if command else "the command is empty",
            hint='a command is a program and its arguments: ["ls", "-l"]',
        )
    if not command[0]:
        raise UsageError("the command is empty", hint='the first word is a program: ["ls", "-l"]')
    if any("\0" in word for word in command):
        raise UsageError(f"a word of the command {command[0]!r} holds a zero byte")
    if cwd is not None:
        check_path(cwd, what="cwd")
    _check_words(env or {}, "env")
    check_user(user)
    if timeout_seconds is not None:
        _check_seconds("timeout_seconds", timeout_seconds)
    check_size("max_output_bytes", max_output_bytes)


def check_path(path: str, *, what: str = "") -> str:
    """Return an absolute path without slashes at its end."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise UsageError(
            f"{what} is {path!r}, which is not an absolute path"
            if what
            else f"{path!r} is not an absolute path",
            hint="paths inside a sandbox start with a slash",
        )
    return path.rstrip("/") or "/"


def check_user(user: str | None) -> None:
    """Check how a user is written: NAME, NUMBER, either with :GROUP; empty or None is nobody in particular."""
    if user is None or user == "":
        return
    if not isinstance(user, str) or _USER.fullmatch(user) is None:
        raise UsageError(f"{user!r} is no user", hint="a user is a name or a number, with :group or without")
    if any(part.isdigit() and int(part) > _LAST_ID for part in user.split(":")):
        raise UsageError(f"{user!r} is no user: numbers of users and groups go up to {_LAST_ID}")


def check_size(what: str, size: int) -> None:
    """Check a number of bytes."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise UsageError(f"{what} is {size!r}, which is no number of bytes")


def check_mode(mode: int) -> None:
    """Check a file's permission bits."""
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o7777:
        raise UsageError(f"mode is {mode!r}, which is no file's mode", hint="write it in octal: 0o644")


def _check_limits(limits: Limits) -> None:
    cpus = limits.cpus
    if cpus is not None and (
        isinstance(cpus, bool) or not isinstance(cpus, int | float) or not 0 < cpus <= _MOST_CPUS
    ):
        raise UsageError(
            f"limits.cpus is {cpus!r}, which is no number above 0 up to {_MOST_CPUS:g}",
            hint="None sets no limit",
        )
    for name, most in (("memory_mb", _MOST_MB), ("pids", _MOST_PIDS), ("disk_mb", _MOST_MB)):
        value = getattr(limits, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise UsageError(
                f"limits.{name} is {value!r}, which is no whole number from 1 to {most}",
                hint="None sets no limit",
            )


def _check_seconds(what: str, seconds: float) -> None:
    """Check a time; one that is over, 0 or less, is the caller's time that ran out and no fault."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise UsageError(f"{what} is {seconds!r}, which is no number of seconds")


def _check_image(image: str | ImageBuild | None) -> None:
    if isinstance(image, ImageBuild):
        if (
            not isinstance(image.context, Path)
            or not isinstance(image.dockerfile, str)
            or "\0" in image.dockerfile
        ):
            raise UsageError(f"{image!r} names no folder and Dockerfile to build")
    elif image is not None and (not isinstance(image, str) or _IMAGE.fullmatch(image) is None):
        raise UsageError(f"{image!r} is no image's name", hint="write NAME:TAG or REGISTRY/NAME:TAG")


def _check_network(network: NetworkPolicy) -> None:
    if network.mode not in get_args(NetworkMode):
        raise UsageError(
            f"network.mode is {network.mode!r}", hint=f"it is one of {', '.join(get_args(NetworkMode))}"
        )
    hosts = network.allowed_hosts
    if isinstance(hosts, str) or not all(isinstance(host, str) for host in hosts):
        raise UsageError(
            f"network.allowed_hosts is {hosts!r}, which is no list of hosts", hint='write ("example.org",)'
        )


def _check_words(words: Mapping[str, str], what: str) -> None:
    """Check names and values of variables or labels."""
    if not isinstance(words, Mapping):
        raise UsageError(f"{what} is {words!r}, which is no mapping of names to text")
    for name, value in words.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"{what}[{name!r}] is {value!r}, which is no text")
        if not name or "\0" in name + value or (what == "env" and "=" in name):
            raise UsageError(f"{name!r} in {what} cannot be set")
