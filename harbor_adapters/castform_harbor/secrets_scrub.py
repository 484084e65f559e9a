"""Take the values of secrets out of the text files of a trial."""

from __future__ import annotations

import re
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


def scrub_folder(folder: Path, secrets: Iterable[str]) -> None:
    """Replace the secrets in every text file below a folder; binary and very large files stay."""
    values = sorted((secret.encode() for secret in secrets), key=len, reverse=True)
    if not values:
        return
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_SCRUBBED_BYTES:
            continue
        data = path.read_bytes()
        if b"\0" in data[:4096] or not any(value in data for value in values):
            continue
        for value in values:
            data = data.replace(value, REPLACEMENT)
        path.write_bytes(data)
