"""A bundle in memory, and the digest that names it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmax.bundle.metadata import BundleMetadata

DIGEST_TAG = b"benchmax.bundle.v1\0"


@dataclass(frozen=True)
class DataFile:
    """One data file that travels with a bundle."""

    path: str
    """Where it lies in the project, as a relative POSIX path."""
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class BundleData:
    """The declared data files of a bundle."""

    files: tuple[DataFile, ...] = ()
    """Sorted by path, each path once."""
    base: str = ""
    """Folder of the class's file inside the project: where `create_dataset` gets its `base_dir`."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(file.content) for file in self.files)


@dataclass(frozen=True)
class Bundle:
    """An environment class with its constructor arguments, as one pickle and what it needs."""

    pickled: bytes = field(repr=False)
    metadata: BundleMetadata
    data: BundleData = BundleData()
    signature: str | None = field(default=None, repr=False)
    """Hex HMAC-SHA256 over the digest. Not part of the digest."""


def bundle_digest(bundle: Bundle) -> str:
    """Return the SHA-256 (hex) that names a bundle by its content.

    Every part counts with its length in front, so no two bundles read the same. A bundle
    without data files has two parts, the pickle and the metadata.
    """
    digest = hashlib.sha256(DIGEST_TAG)
    for part in _parts(bundle):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _parts(bundle: Bundle) -> Iterator[bytes]:
    yield bundle.pickled
    yield bundle.metadata.to_json_bytes()
    if bundle.data.files:
        yield bundle.data.base.encode()
    for file in bundle.data.files:
        yield file.path.encode()
        yield file.content
