"""Images named by what they are built from, and a lock so that several processes build each once."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from castform.errors import MissingError
from castform.home import castform_home
from castform.sandbox.archive import explain_local
from castform.sandbox.contract import ImageBuild
from castform.sandbox.errors import SandboxBuildError, UsageError

_FORMAT = b"castform-image-1\0"
"""Changes when what goes into a hash does."""
_CHUNK = 1 << 20
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5


def hash_build(build: ImageBuild, *, paths: Iterable[str] | None = None, salt: str = "") -> str:
    """Return 32 hex digits that are equal when an image is built from the same content.

    Names, kinds, permission bits, link targets and content of the folder count, times and owners do
    not. `paths`: the only ones that count, relative to the folder (what a .dockerignore leaves);
    `salt`: whatever else decides what is built. UsageError when the folder or its Dockerfile is not there.
    """
    check_build(build)
    digest = hashlib.sha256(_FORMAT)
    _add(digest, b"salt", salt.encode(), build.dockerfile.encode())
    chosen = _list_below(build.context) if paths is None else sorted({*paths, build.dockerfile})
    for name in chosen:
        _add_file(digest, build.context / name, name)
    return digest.hexdigest()[:32]


def check_build(build: ImageBuild) -> None:
    """Raise UsageError unless the folder has its Dockerfile, inside itself."""
    if not build.context.is_dir():
        raise UsageError(f"{build.context} is no folder to build an image from")
    dockerfile = build.context / build.dockerfile
    if not dockerfile.is_file():
        raise UsageError(
            f"{build.context} has no {build.dockerfile}",
            hint="an image is built by a Dockerfile in its folder",
        )
    if not dockerfile.resolve().is_relative_to(build.context.resolve()):
        raise UsageError(f"{build.dockerfile} lies outside of {build.context}")


@contextlib.asynccontextmanager
async def lock_across_processes(name: str, *, folder: Path | None = None) -> AsyncIterator[None]:
    """Hold a lock that no other task, thread or process on this machine holds for the same name.

    The kernel gives it back when a process dies. `folder`: where the lock's file lies (default:
    below CASTFORM_HOME). Waits without a bound: use it inside a time limit. SandboxFileError where
    the file cannot be made.
    """
    try:
        import fcntl
    except ImportError as error:  # pragma: no cover - Windows
        raise MissingError("sandboxes need a POSIX system") from error
    place = castform_home() / "sandboxes" / "locks" if folder is None else folder
    file = place / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.lock"
    with explain_local(place):
        place.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(
            file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )  # open at its own: tasks exclude each other
    try:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause)
        yield
    finally:
        os.close(descriptor)


def _list_below(folder: Path) -> list[str]:
    return sorted(_iterate_below(folder, folder))


def _iterate_below(folder: Path, root: Path) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        raise SandboxBuildError(f"{folder} cannot be read: {error.strerror}") from error
    for entry in entries:
        yield Path(entry.path).relative_to(root).as_posix()
        if entry.is_dir(follow_symlinks=False):
            yield from _iterate_below(Path(entry.path), root)


def _add_file(digest: hashlib._Hash, place: Path, name: str) -> None:
    try:
        status = place.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            _add(digest, b"link", os.fsencode(name), os.fsencode(os.readlink(place)))  # noqa: PTH115 - as bytes
        elif stat.S_ISDIR(status.st_mode):
            _add(digest, b"folder", os.fsencode(name), b"%o" % mode)
        elif stat.S_ISREG(status.st_mode):
            _add(digest, b"file", os.fsencode(name), b"%o" % mode, _hash_content(place))
    except OSError as error:
        raise SandboxBuildError(f"{place} cannot be read: {error.strerror}") from error


def _hash_content(place: Path) -> bytes:
    content = hashlib.sha256()
    with place.open("rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.digest()


def _add(digest: hashlib._Hash, *parts: bytes) -> None:
    """Add parts with their lengths, so that no two lists of parts read the same."""
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
