"""Which model a run takes that names none, and whether the one that is named is here."""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from castform.home import expand_home
from castform.platform.errors import JobLaunchError

MODEL_VARIABLE = "CASTFORM_MODEL"
NOT_FOUND = 404


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundModel:
    """A model that a run can be started with."""

    id: str
    """As the run's settings name it: a folder by its whole path."""
    context_tokens: int | None
    """What it reads at most; None where that is only known once it was fetched."""
    warning: str | None = None
    """That it was taken where it could as well have been another."""


def find_model(name: str | None, *, models: Path) -> FoundModel:
    """Return the model of that name; for None that of CASTFORM_MODEL, or the one in `models` pulled last.

    A hub id is taken as it is. JobLaunchError when there is no such model.
    """
    name = name or os.environ.get(MODEL_VARIABLE)
    if not name:
        return _find_pulled_last(models)
    local = expand_home(name)
    if local.is_dir():
        return FoundModel(id=str(local.absolute()), context_tokens=read_context_tokens(local))
    if (models / name).is_dir() and not name.startswith("."):
        return FoundModel(id=name, context_tokens=read_context_tokens(models / name))
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return FoundModel(id=name, context_tokens=None)
    there = sorted(path.name for path in models.glob("[!.]*"))
    close = difflib.get_close_matches(name, there, n=1)
    raise JobLaunchError(
        f"no model called {name!r}",
        NOT_FOUND,
        hint=(f"did you mean {close[0]!r}? " if close else "")
        + "`castform model list` shows what is here and what can be pulled; a folder or a hub id works too",
    )


def read_context_tokens(folder: Path) -> int | None:
    """Return how many tokens a model reads, as its config.json says; None when it does not say."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        text = found.get("text_config") or found
        own = text.get("max_position_embeddings") or text.get("n_positions")
    except (OSError, ValueError, AttributeError):
        return None
    return own if isinstance(own, int) else None


def _find_pulled_last(models: Path) -> FoundModel:
    folders = [path for path in models.glob("[!.]*") if path.is_dir()]
    if not folders:
        raise JobLaunchError(
            "no model was named, and none has been pulled",
            NOT_FOUND,
            hint="pass SftTrainingConfig(model=…) a folder or a hub id, or run `castform model pull "
            f"smollm2-135m`; {MODEL_VARIABLE} names the model of all runs that name none",
        )
    last = max(folders, key=lambda path: (path.stat().st_mtime_ns, path.name))
    warning = None
    if len(folders) > 1:
        warning = (
            f"no model was named: {last.name} is trained, which of {len(folders)} models was pulled last; "
            f"SftTrainingConfig(model=…) or {MODEL_VARIABLE} names one"
        )
    return FoundModel(id=last.name, context_tokens=read_context_tokens(last), warning=warning)
