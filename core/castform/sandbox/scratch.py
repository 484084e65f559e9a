"""Folders for a while that what a killed process left in them is removed from.

Beside the boxes, and not where temporary files lie: there nobody knows whose a folder is. The name of
a process's folder is its owner, so that there is no moment at which a folder has none.

FOLDER/.scratch/OWNER/tests-k3x9...
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from castform.sandbox.owner import PREFIX, Owner, current_owner, is_alive
from castform.sandbox.state import sandboxes_folder
from castform.sandbox.trees import remove_tree


@contextlib.contextmanager
def open_scratch(name: str) -> Iterator[Path]:
    """Give a new empty folder whose name begins with `name`, and remove it with all that is in it. Blocks.

    A process that has none yet removes what dead ones left. OSError where the disk refuses.
    """
    folder = _make_folder(name)
    try:
        yield folder
    finally:
        remove_tree(folder)
        with contextlib.suppress(OSError):  # another one of this process lies beside it
            folder.parent.rmdir()


def reap_scratch() -> list[str]:
    """Remove the folders whose owner is known to be dead; return their names. Blocks."""
    removed: list[str] = []
    root = _root()
    for own in sorted(root.iterdir()) if root.is_dir() else ():
        owner = read_owner(own.name)
        if owner is None or is_alive(owner):
            continue
        with contextlib.suppress(OSError):  # another reaper is at it
            removed += sorted(folder.name for folder in own.iterdir())
        remove_tree(own)
    return removed


def _make_folder(name: str) -> Path:
    own = _root() / write_owner(current_owner())
    while True:
        try:
            own.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            pass
        else:
            reap_scratch()
        with contextlib.suppress(FileNotFoundError):  # the last one that was in use took it along
            return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=own))


def _root() -> Path:
    return sandboxes_folder() / ".scratch"  # no provider's name begins like this


def write_owner(owner: Owner) -> str:
    """Return the name of an owner's folder."""
    return urlencode({label.removeprefix(PREFIX): value for label, value in owner.labels().items()})


def read_owner(name: str) -> Owner | None:
    """Return the owner of a folder of this name; None where it names none."""
    return Owner.from_labels({PREFIX + field: value for field, value in parse_qsl(name)})
