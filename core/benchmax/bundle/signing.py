"""Sign bundles with a key that maker and host share: HMAC-SHA256 over the digest.

A good signature says that somebody who has the key made this very bundle. It hides
nothing, and everybody who can check signatures can also make them.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from pathlib import Path

from benchmax.bundle.bundle import Bundle, bundle_digest
from benchmax.bundle.errors import BundleIntegrityError, BundlingError

ALGORITHM = "hmac-sha256"
MIN_KEY_BYTES = 16
_SIGNATURE_TAG = b"benchmax.bundle.signature.v1\0"
_KEY_TAG = b"benchmax.bundle.key.v1\0"


def sign_bundle(bundle: Bundle, key: bytes) -> Bundle:
    """Return the bundle with a signature."""
    return replace(bundle, signature=make_signature(bundle_digest(bundle), key))


def make_signature(digest: str, key: bytes) -> str:
    """Return the signature (hex) of a digest (hex). BundlingError for a key that is too short."""
    if not isinstance(key, bytes) or len(key) < MIN_KEY_BYTES:
        raise BundlingError(f"a signing key needs at least {MIN_KEY_BYTES} bytes")
    return hmac.new(key, _SIGNATURE_TAG + bytes.fromhex(digest), hashlib.sha256).hexdigest()


def key_id(key: bytes) -> str:
    """Return a short name of a key that tells nothing about it."""
    return hashlib.sha256(_KEY_TAG + key).hexdigest()[:16]


def read_key(path: Path) -> bytes:
    """Return the key of a file; one line break at the end does not count. BundlingError when there is none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BundlingError(f"the key file {path} cannot be read: {error.strerror}") from error
    key = content[:-1] if content.endswith(b"\n") else content
    if len(key) < MIN_KEY_BYTES:
        raise BundlingError(f"the key in {path} is {len(key)} bytes long; it needs at least {MIN_KEY_BYTES}")
    return key


def check_integrity(bundle: Bundle, *, digest: str | None = None, key: bytes | None = None) -> str:
    """Return the digest of a bundle that is the one expected.

    BundleIntegrityError when the digest is another one, or a key is given and the bundle
    is not signed, or not with it.
    """
    actual = bundle_digest(bundle)
    if digest is not None and not hmac.compare_digest(actual.encode(), digest.strip().lower().encode()):
        raise BundleIntegrityError(f"the bundle's digest is {actual}, not {digest}: it is another bundle")
    if key is not None:
        if bundle.signature is None:
            raise BundleIntegrityError("the bundle is not signed, and a key was given to check it with")
        if not hmac.compare_digest(make_signature(actual, key).encode(), bundle.signature.encode()):
            raise BundleIntegrityError("the bundle's signature is not by this key, or the bundle was changed")
    return actual
