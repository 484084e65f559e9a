"""Questions about a corpus, answered by searching it and citing what was found."""

__version__ = "0.1.0"
