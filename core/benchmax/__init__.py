"""The environment runtime: what an environment author imports."""

__version__ = "0.2.5"
