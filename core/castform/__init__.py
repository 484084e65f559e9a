"""Host, SDK and command line. Importing it does no work."""

__version__ = "0.1.0"
