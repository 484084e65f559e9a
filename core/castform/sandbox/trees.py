"""Measuring and removing folders that a hostile program wrote.

Such a program nests folders deeper than a path can name and closes folders to whoever looks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

BEYOND_MEASURE = 1 << 62
"""Bytes that a tree counts for which no path reaches to the bottom of: more than any limit."""
_BLOCK_BYTES = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def measure_tree(folder: Path, seen: set[tuple[int, int]]) -> int:
    """Return the bytes that files and folders below `folder` take up, a file with several names once.

    `seen`: device and number of files with several names, those that were counted before included.
    BEYOND_MEASURE where folders lie deeper than a path can name: what is in them cannot be looked at.
    """
    total = 0
    pending = [os.fspath(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                            if (status.st_dev, status.st_ino) in seen:
                                continue
                            seen.add((status.st_dev, status.st_ino))
                        total += status.st_blocks * _BLOCK_BYTES
                        if stat.S_ISDIR(status.st_mode):
                            pending.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return BEYOND_MEASURE
            continue  # it was removed meanwhile, or is closed to this user
    return total


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, at any depth; what cannot be removed stays.

    Goes down and up by descriptors, so that no path gets long and nothing recurses. No link is
    followed. Run it when no program can write there any more.
    """
    if folder.is_symlink() or not folder.is_dir():
        return
    with contextlib.suppress(OSError):
        folder.chmod(0o700)  # it may be closed to whoever is no root
        _remove_content(os.open(folder, _FOLDER))
    with contextlib.suppress(OSError):
        folder.rmdir()


def _remove_content(at: int) -> None:
    """Remove what an open folder holds; closes the descriptor."""
    try:
        line = [
            ("", _remove_files(at))
        ]  # the folders from the top to where we are, with what is left in each
        while line:
            name, folders = line[-1]
            if folders:
                with contextlib.suppress(OSError):
                    os.chmod(folders[-1], 0o700, dir_fd=at)
                    below = os.open(folders[-1], _FOLDER, dir_fd=at)
                    os.close(at)
                    at = below
                    line.append((folders[-1], _remove_files(at)))
                folders.pop()
                continue
            line.pop()
            if line:
                above = os.open("..", _FOLDER, dir_fd=at)
                os.close(at)
                at = above
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=at)
    finally:
        os.close(at)


def _remove_files(at: int) -> list[str]:
    """Remove all but the folders from an open folder; return the names of those."""
    folders = []
    with os.scandir(at) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=at)
    return folders
