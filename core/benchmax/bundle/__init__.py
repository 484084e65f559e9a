"""Bundles: an environment as one file that loads where its source is not.

`dump_bundle` makes one, `write_bundle` and `read_bundle` keep it in a file, `load_bundle`
gives the environment back in a process that trusts it.
"""

from __future__ import annotations

from benchmax.bundle.bundle import Bundle, BundleData, DataFile, bundle_digest
from benchmax.bundle.container import SUFFIX, parse_bundle, read_bundle, write_bundle
from benchmax.bundle.data_files import lay_out_data
from benchmax.bundle.dump import DEFAULT_MAX_BYTES, dump_bundle
from benchmax.bundle.errors import (
    BundleIntegrityError,
    BundleSecretError,
    BundleSecretWarning,
    BundleWarning,
    BundlingError,
    IncompatibleBenchmaxError,
    IncompatiblePythonError,
    IncompatibleRuntimeError,
)
from benchmax.bundle.load import load_bundle, validate_bundle_compatibility
from benchmax.bundle.metadata import BundleMetadata
from benchmax.bundle.references import unregistered_local_refs
from benchmax.bundle.runtime import runtime_distributions
from benchmax.bundle.secret_scan import SecretFinding
from benchmax.bundle.signing import check_integrity, key_id, read_key, sign_bundle

__all__ = [
    "DEFAULT_MAX_BYTES",
    "SUFFIX",
    "Bundle",
    "BundleData",
    "BundleIntegrityError",
    "BundleMetadata",
    "BundleSecretError",
    "BundleSecretWarning",
    "BundleWarning",
    "BundlingError",
    "DataFile",
    "IncompatibleBenchmaxError",
    "IncompatiblePythonError",
    "IncompatibleRuntimeError",
    "SecretFinding",
    "bundle_digest",
    "check_integrity",
    "dump_bundle",
    "key_id",
    "lay_out_data",
    "load_bundle",
    "parse_bundle",
    "read_bundle",
    "read_key",
    "runtime_distributions",
    "sign_bundle",
    "unregistered_local_refs",
    "validate_bundle_compatibility",
    "write_bundle",
]
