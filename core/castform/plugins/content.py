"""Hashes over files: what a package or an environment's file is, to the byte.

`castform env list` imports this where a certificate has to be compared, so it imports little.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a tenth of a listing, which has its paths as text
    from pathlib import Path

CERTIFICATES_FOLDER = "certificates"
"""Not part of the content: a certificate that a package ships names the content it is for."""


def hash_content(path: str | Path) -> str:
    """Return the sha256 of a file, or of every file below a folder.

    Python's caches stay out, and so does a folder `certificates` at the top.
    """
    return combine_hashes(hash_files(path))


def hash_files(path: str | Path) -> dict[str, str]:
    """Return name to sha256 for a file, or for every file below a folder that counts as content."""
    if os.path.isfile(path):  # noqa: PTH113
        return {os.path.basename(path): hash_file(path)}  # noqa: PTH119
    names = sorted(_list_content(path), key=lambda name: name.split("/"))  # a folder's files stay together
    return {name: hash_file(f"{path}/{name}") for name in names}


def combine_hashes(files: Mapping[str, str]) -> str:
    """Return one digest over names and hashes, in their order."""
    digest = hashlib.sha256()
    for name, sha256 in files.items():
        digest.update(f"{name}\0{sha256}\n".encode())
    return digest.hexdigest()


def hash_file(file: str | Path) -> str:
    """Return the sha256 of a file's bytes, as hex digits."""
    content = hashlib.sha256()
    with open(file, "rb") as stream:  # noqa: PTH123
        while block := stream.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def _list_content(folder: str | Path, inside: str = "") -> Iterator[str]:
    """Yield the names, relative to `folder`, of the files in it that count. Links to folders are not followed."""
    try:
        entries = list(os.scandir(f"{folder}/{inside}"))
    except PermissionError:
        return
    for entry in entries:
        name = f"{inside}{entry.name}"
        if entry.name == "__pycache__":
            continue
        if entry.is_dir(follow_symlinks=False):
            if name != CERTIFICATES_FOLDER:
                yield from _list_content(folder, f"{name}/")
        elif not _is_bytecode(entry.name) and os.path.isfile(entry.path):  # noqa: PTH113
            yield name


def _is_bytecode(name: str) -> bool:
    stem, _, ending = name.rpartition(".")
    return ending in ("pyc", "pyo") and bool(stem)
