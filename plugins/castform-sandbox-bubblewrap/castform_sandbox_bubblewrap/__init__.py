"""Sandboxes of Linux namespaces by bubblewrap, without a daemon, for castform."""

__version__ = "0.1.0"
