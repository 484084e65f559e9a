"""Where providers keep what outlives a process: built images, locks, records of boxes."""

from __future__ import annotations

from pathlib import Path

from castform.home import castform_home


def sandboxes_folder() -> Path:
    """Return the folder of sandboxes below CASTFORM_HOME. It need not exist yet; a provider takes one of its name in it."""
    return castform_home() / "sandboxes"
