"""Small programming tasks with hidden tests, as castform environments."""

__version__ = "0.1.0"
