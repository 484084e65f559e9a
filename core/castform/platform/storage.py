"""Where uploaded files lie: a folder of CASTFORM_HOME, or whatever else keeps bytes under a path."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from castform.home import castform_home
from castform.platform.errors import TrainerError

FOLDER = "storage"
_CHUNK_BYTES = 1 << 20


class AssetStorage(Protocol):
    """Keeps files under relative paths."""

    def put(self, path: str, chunks: Callable[[], Iterator[bytes]], *, digest: str) -> None:
        """Store a file whole or not at all; one that is there with this SHA-256 stays as it is.

        `chunks` gives its bytes from the start each time it is called. TrainerError when it cannot
        be stored.
        """
        ...


class LocalStorage:
    """A folder, by default `storage` of CASTFORM_HOME."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or castform_home() / FOLDER

    def put(self, path: str, chunks: Callable[[], Iterator[bytes]], *, digest: str) -> None:
        """Store a file, as AssetStorage says."""
        target = self.find(path)
        try:
            if target.is_file() and hash_file(target) == digest:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(target, chunks())
        except OSError as error:
            raise TrainerError(
                f"cannot store {target}: {error.strerror or error}",
                hint="free some space, or set CASTFORM_HOME to a folder that you can write",
            ) from error

    def find(self, path: str) -> Path:
        """Return where a path lies, whether there is a file or not. ValueError for a path that leads out."""
        parts = path.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\0" in path or "\\" in path:
            raise ValueError(f"{path!r} is not a path in the storage")
        return self.root.joinpath(*parts)


def hash_file(path: Path) -> str:
    """Return a file's SHA-256 in hex. OSError when it cannot be read."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def _write_whole(target: Path, chunks: Iterator[bytes]) -> None:
    """Write beside the target, then put it there in one step: two that write at once do not meet."""
    partial = target.with_name(f".{target.name}.{os.urandom(4).hex()}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
