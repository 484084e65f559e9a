"""What goes wrong with bundles, as errors and as warnings."""

from __future__ import annotations


class BundlingError(Exception):
    """A bundle cannot be made, read or loaded."""


class BundleIntegrityError(BundlingError):
    """A bundle is not the one that was expected: damaged, changed, or signed with another key."""


class BundleSecretError(BundlingError):
    """A bundle would hold a secret. The message names the places and never the secret."""


class IncompatibleRuntimeError(Exception):
    """A bundle was made for another runtime."""


class IncompatiblePythonError(IncompatibleRuntimeError):
    """A bundle was made by another minor version of Python; its bytecode means nothing to this one."""


class IncompatibleBenchmaxError(IncompatibleRuntimeError):
    """A bundle was made with another minor version of benchmax."""


class BundleWarning(UserWarning):
    """A bundle was made, and something about it deserves a look."""


class BundleSecretWarning(BundleWarning):
    """A bundle holds a secret, by choice. The message names the places and never the secret."""
