"""Sandboxes in Docker containers, for castform."""

__version__ = "0.1.0"
