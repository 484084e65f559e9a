"""Hashes over files: what a package or an environment's file is, to the byte.

`castform env list` imports this where a certificate has to be compared, so it imports little.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

CERTIFICATES_FOLDER = "certificates"
"""Not part of the content: a certificate that a package ships names the content it is for."""


def hash_content(path: Path) -> str:
    """Return the sha256 of a file, or of every file below a folder.

    Python's caches stay out, and so does a folder `certificates` at the top.
    """
    return combine_hashes(hash_files(path))


def hash_files(path: Path) -> dict[str, str]:
    """Return name to sha256 for a file, or for every file below a folder that counts as content."""
    if path.is_file():
        return {path.name: hash_file(path)}
    names = {found: found.relative_to(path) for found in sorted(path.rglob("*")) if found.is_file()}
    return {name.as_posix(): hash_file(found) for found, name in names.items() if _counts(name)}


def combine_hashes(files: Mapping[str, str]) -> str:
    """Return one digest over names and hashes, in their order."""
    digest = hashlib.sha256()
    for name, sha256 in files.items():
        digest.update(f"{name}\0{sha256}\n".encode())
    return digest.hexdigest()


def hash_file(file: Path) -> str:
    """Return the sha256 of a file's bytes, as hex digits."""
    content = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def _counts(name: Path) -> bool:
    if "__pycache__" in name.parts or name.suffix in (".pyc", ".pyo"):
        return False
    return len(name.parts) == 1 or name.parts[0] != CERTIFICATES_FOLDER
