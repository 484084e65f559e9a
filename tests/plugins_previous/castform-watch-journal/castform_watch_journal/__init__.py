"""A journal of a run, one JSON object a line."""

__version__ = "0.1.0"
