"""The datasets of reasoning-gym, as castform environments."""

__version__ = "0.1.0"
