"""Where castform keeps what it makes: `CASTFORM_HOME`, by default `~/.castform`."""

from __future__ import annotations

import os
from pathlib import Path


def castform_home() -> Path:
    """Return the folder that holds models/, runs/ and runs.db. It need not exist yet."""
    return Path(os.environ.get("CASTFORM_HOME") or Path.home() / ".castform").expanduser().absolute()


def models_folder() -> Path:
    """Return the folder of pulled models, one folder a model."""
    return castform_home() / "models"


def expand_home(path: str | Path) -> Path:
    """Return a path with `~` spelled out; as it is, like a shell, where nobody has that name."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
