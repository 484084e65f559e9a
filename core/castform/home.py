"""Where castform keeps what it makes: `CASTFORM_HOME`, by default `~/.castform`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def castform_home() -> Path:
    """Return the folder that holds models/, runs/ and runs.db. It need not exist yet."""
    from pathlib import Path  # a tenth of a listing, which asks for the text below

    return Path(os.environ.get("CASTFORM_HOME") or Path.home() / ".castform").expanduser().absolute()


def castform_home_text() -> str:
    """Return `castform_home()` as text, by pathlib only where the name has to be worked out."""
    text = os.path.expanduser(os.environ.get("CASTFORM_HOME") or "~/.castform")  # noqa: PTH111
    plain = os.path.isabs(text) and os.path.normpath(text) == text  # noqa: PTH117
    return text if plain else str(castform_home())


def models_folder() -> Path:
    """Return the folder of pulled models, one folder a model."""
    return castform_home() / "models"


def expand_home(path: str | Path) -> Path:
    """Return a path with `~` spelled out; as it is, like a shell, where nobody has that name."""
    from pathlib import Path

    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
