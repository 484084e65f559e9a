"""Take the values of secrets out of the text files of a trial."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, AnyStr

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
    """Replace the values in every text file below a folder, also as JSON spells them; binary and very large
    files stay.

    Each file is replaced whole: OSError where the disk refuses, and then it is as it was.
    """
    hidden = _sort(
        {spelled.encode(errors="surrogateescape") for value in values for spelled in _spell(value)}
    )
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


def scrub_document(document: Any, values: Iterable[str]) -> Any:  # Any: JSON
    """Return a document in whose texts the values are replaced; its keys stay."""
    hidden = _sort(set(values))

    def scrub(item: Any) -> Any:
        if isinstance(item, str):
            for value in hidden:
                item = item.replace(value, REPLACEMENT.decode())
            return item
        if isinstance(item, Mapping):
            return {key: scrub(value) for key, value in item.items()}
        return [scrub(value) for value in item] if isinstance(item, list | tuple) else item

    return scrub(document) if hidden else document


def _sort(values: set[AnyStr]) -> list[AnyStr]:
    """The longest first: one may lie within another."""
    return sorted(values, key=len, reverse=True)


def _spell(value: str) -> set[str]:
    return {value, *(json.dumps(value, ensure_ascii=plain)[1:-1] for plain in (True, False))}


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
