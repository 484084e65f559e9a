"""Paths that are no data files."""

from __future__ import annotations

from pathlib import Path


def is_special_file(path: Path) -> bool:
    """Say whether a path is a pipe, a socket or a device: reading one may wait, or go on, for ever.

    A folder is not one, nor is what does not exist. OSError: the path cannot be looked at.
    """
    return path.exists() and not path.is_file() and not path.is_dir()
