"""A run's folder on disk, and the lock that keeps a second process out of it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from castform.errors import RunFailedError, UsageError


def run_folder(home: Path, run_id: str) -> Path:
    """Return the folder of a run: config, call logs, checkpoints, adapter."""
    return home / "runs" / run_id


@contextmanager
def hold_run_folder(folder: Path) -> Iterator[Path]:
    """Make `folder` and hold it for this process; the lock goes when the process does, however it ends.

    Raises UsageError when another process holds it or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write the run folder {folder} ({error.strerror})",
            hint="set CASTFORM_HOME to a folder that you can write",
        ) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read(32).strip()
            raise UsageError(
                f"another process{f' (pid {holder})' if holder else ''} is running in {folder}",
                hint="wait for it, or stop it with `castform runs stop`",
            ) from None
        try:
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
        except OSError as error:
            raise RunFailedError(f"cannot write {folder / 'lock'} ({error.strerror})") from error
        yield folder
