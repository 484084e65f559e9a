"""OpenEnv servers as castform environments."""

__version__ = "0.1.0"
