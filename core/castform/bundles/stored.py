"""Open a bundle file on the host: everything is checked, nothing is unpickled."""

from __future__ import annotations

from pathlib import Path

from benchmax.bundle import (
    Bundle,
    BundlingError,
    IncompatibleRuntimeError,
    check_integrity,
    read_bundle,
    read_key,
    validate_bundle_compatibility,
)
from castform.errors import UsageError


def open_bundle(
    path: Path, *, digest: str | None = None, key_file: Path | None = None, any_runtime: bool = False
) -> Bundle:
    """Return the bundle of a file that is whole, the one expected, and made for this runtime.

    `digest` and `key_file` say which one is expected; `any_runtime` lets bundles of another
    Python or benchmax pass, to look at. UsageError says what is wrong.
    """
    try:
        bundle = read_bundle(path)
        check_integrity(bundle, digest=digest, key=None if key_file is None else read_key(key_file))
        if not any_runtime:
            validate_bundle_compatibility(bundle.metadata)
    except (BundlingError, IncompatibleRuntimeError) as error:
        raise UsageError(str(error), hint="nothing of the bundle was run") from error
    return bundle
