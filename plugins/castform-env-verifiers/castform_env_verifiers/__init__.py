"""Environments of the verifiers library as castform environments."""

__version__ = "0.1.0"
