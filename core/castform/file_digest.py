"""Tell whether files have changed: a hash of their names and contents."""

from __future__ import annotations

import hashlib
from pathlib import Path

from castform.errors import UsageError


def digest_files(path: Path) -> str:
    """Return 32 hex digits of a file, or of the names and contents of all files below a folder.

    Where nothing is, a digest too. UsageError: a file that cannot be read.
    """
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            name = file.relative_to(path).as_posix().encode(errors="surrogateescape")
            try:
                with file.open("rb") as data:
                    content = hashlib.file_digest(data, "sha256").digest()
            except OSError as error:
                raise UsageError(f"{file} cannot be read: {error.strerror}") from error
            digest.update(name + b"\0" + content)
    return digest.hexdigest()[:32]
