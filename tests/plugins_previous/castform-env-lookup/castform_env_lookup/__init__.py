"""Questions about a table of invented places, with tools to look them up."""

__version__ = "0.1.0"
