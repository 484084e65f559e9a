"""Harbor tasks and a harness as an environment."""

__version__ = "0.1.0"
