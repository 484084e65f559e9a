"""What libraries and plugins log, on stderr: a line for the first of each kind, everything with -v.

A fault that every rollout meets would otherwise fill the terminal with one traceback a
rollout. Nothing is lost by it: rollouts keep their error in the run store.
"""

from __future__ import annotations

import logging
import sys

from castform.safe_text import safe_text

NOTE = 25
"""Level of what a user should know though nothing is wrong: above INFO, so it is shown, below WARNING."""


def show_logs(*, verbose: bool) -> None:
    """Send log records to stderr; `verbose` shows all of them, with tracebacks."""
    logging.addLevelName(NOTE, "NOTE")
    handler = logging.StreamHandler(sys.stderr)
    if verbose:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    else:
        handler.setFormatter(_OneLine())
        handler.addFilter(_FirstOfAKind())
    logging.basicConfig(level=logging.INFO if verbose else NOTE, handlers=[handler])


class _FirstOfAKind(logging.Filter):
    """Lets the first record through that a place in the code makes."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[tuple[str, int]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        place = (record.pathname, record.lineno)
        if place in self._seen:
            return False
        self._seen.add(place)
        return True


class _OneLine(logging.Formatter):
    """`warning: message: ValueError: why`, without the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            why = " ".join(str(error).split())
            text += f": {type(error).__name__}{f': {why}' if why else ''} (-v shows the traceback)"
        return safe_text(f"{record.levelname.lower()}: {text}")
