"""Files of this machine that no box shows: an attack that sees one of them does nothing."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_SECRET_NAME = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
MIN_SECRET_CHARACTERS = 12
"""Shorter values of such variables turn up by chance."""


@contextlib.contextmanager
def guard_machine() -> Iterator[tuple[str, ...]]:
    """Make files in the folder for temporary files and in the home folder."""
    name = f"castform-guard-{secrets.token_hex(8)}"
    made = []
    for folder in (Path(tempfile.gettempdir()), Path.home()):
        with contextlib.suppress(OSError):
            (folder / name).write_text("of this machine, in no box\n")
            made.append(folder / name)
    try:
        yield tuple(map(str, made))
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def find_own_secrets(env: Mapping[str, str] | None = None) -> frozenset[str]:
    """Return values of environment variables that are secrets by their names."""
    known = os.environ if env is None else env
    return frozenset(
        value
        for name, value in known.items()
        if _SECRET_NAME.search(name) and len(value) >= MIN_SECRET_CHARACTERS
    )
