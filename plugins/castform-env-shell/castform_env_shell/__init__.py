"""Generated shell tasks in a container, in three difficulties."""

__version__ = "0.1.0"
