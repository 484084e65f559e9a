"""Where a loaded bundle's files lie. Paths in a bundle's code are looked up here when it is loaded.

Bundles refer to these functions by name: they stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from benchmax.bundle.errors import BundlingError

_folder: ContextVar[Path | None] = ContextVar("benchmax_bundle_folder", default=None)


@contextmanager
def bundle_folder(folder: Path | None) -> Iterator[None]:
    """Let paths of bundles that are loaded inside start at `folder`."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def bundled_path(relative: str) -> Path:
    """Return where a file of the bundle that is being loaded lies."""
    folder = _folder.get()
    if folder is None:
        raise BundlingError("this bundle carries data files: load it with data_folder=, which lays them out")
    return folder / relative


def bundled_file_name(relative: str) -> str:
    """Return `bundled_path` as text, as a module's `__file__` is."""
    return str(bundled_path(relative))
