"""Arithmetic questions in graded difficulty, as castform environments."""

__version__ = "0.1.0"
