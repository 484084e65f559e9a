"""What exactly an environment was: enough to refuse to resume with another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentPin:
    """Stored with every run."""

    id: str
    """`plugin/environment`, or `file.py:Class` for a file."""
    distribution: str
    """Empty for a file."""
    version: str
    content_sha256: str
    """Hex digest over the names and bytes of the package's files, or of the one file."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Arguments in force, defaults of the config model included."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for the run store."""
        return {
            "id": self.id,
            "distribution": self.distribution,
            "version": self.version,
            "content_sha256": self.content_sha256,
            "args": dict(self.args),
        }


def hash_content(path: Path) -> str:
    """Return the sha256 of a file, or of every file below a folder; caches of Python stay out."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if _counts(p))
    for file in files:
        name = file.name if file == path else file.relative_to(path).as_posix()
        content = hashlib.sha256()
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                content.update(block)
        digest.update(f"{name}\0{content.hexdigest()}\n".encode())
    return digest.hexdigest()


def _counts(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".pyo")
