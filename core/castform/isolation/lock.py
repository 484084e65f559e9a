"""A lock: exact versions and hashes of all that goes into a virtual environment."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

_FORMAT = 1
"""Part of every lock's digest: other rules of building are other environments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LockedItem:
    """One distribution, exactly."""

    name: str
    version: str
    sha256: tuple[str, ...]
    """Hex digests of the files that will do."""
    url: str | None = None
    """Where it is, for what no index has."""

    def line(self) -> str:
        """Return it as pip and uv read it from a file of requirements."""
        what = f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"
        return " ".join([what, *(f"--hash=sha256:{digest}" for digest in self.sha256)])

    def content(self) -> list[str]:
        """Return what makes it this one: where a wheel lay does not."""
        return [canonicalize_name(self.name), self.version, *sorted(self.sha256)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lock:
    """All distributions of a virtual environment, by name."""

    items: tuple[LockedItem, ...]
    runtime: str
    """full or minimal: what comes with castform."""
    resolver: str

    def text(self) -> str:
        """Return the lock as a file of requirements."""
        return "".join(f"{item.line()}\n" for item in self.items)

    def digest(self) -> str:
        """Return the hash over the items and this Python: the name of the environment that is built of them."""
        content = {
            "format": _FORMAT,
            "python": python_identity(),
            "runtime": self.runtime,
            "items": sorted(item.content() for item in self.items),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def find(self, name: str) -> LockedItem | None:
        """Return an item by its name in normal form."""
        return next((item for item in self.items if canonicalize_name(item.name) == name), None)


def python_identity() -> list[str]:
    """Return what makes this Python this one: environments of another are not used."""
    base = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    return [sys.version, platform.machine(), str(base)]
