"""Text games of many turns against a seeded opponent."""

__version__ = "0.1.0"
