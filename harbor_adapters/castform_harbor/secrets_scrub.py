"""Take the values of secrets out of the text files of a trial."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

SHORTEST_SECRET = 8
"""Characters. Shorter values occur in ordinary text."""
MAX_SCRUBBED_BYTES = 16 << 20
REPLACEMENT = b"[redacted]"

_SECRET_NAME = re.compile(r"key|secret|token(?!s)|password|credential|auth", re.IGNORECASE)


def find_secrets(*environments: Mapping[str, str]) -> frozenset[str]:
    """Return the values whose names say that they are secret."""
    return frozenset(
        value
        for environment in environments
        for name, value in environment.items()
        if _SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET
    )


def scrub_folder(folder: Path, values: Iterable[str]) -> None:
    """Replace the values in every text file below a folder; binary and very large files stay.

    Each file is replaced whole: OSError where the disk refuses, and then it is as it was.
    """
    hidden = sorted((value.encode() for value in values), key=len, reverse=True)
    if not hidden:
        return
    for path in list(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_SCRUBBED_BYTES:
            continue
        data = path.read_bytes()
        if b"\0" in data[:4096] or not any(value in data for value in hidden):
            continue
        for value in hidden:
            data = data.replace(value, REPLACEMENT)
        _replace(path, data)


def _replace(path: Path, data: bytes) -> None:
    """Write a file anew, whole or not at all, with the mode that it has."""
    partial = path.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(data)
        partial.chmod(path.stat().st_mode & 0o7777)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
