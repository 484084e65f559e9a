"""Read JSON back from the store's columns; what cannot be read is named, not a traceback."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from castform.errors import RunFailedError

T = TypeVar("T", dict[str, Any], list[Any])  # Any: JSON as it was stored
SHOWN_CHARS = 60


def read_stored(text: str, kind: type[T], what: str, *, of: type | tuple[type, ...] = object) -> T:
    """Return the object or list that a column holds, its values being `of` a type.

    RunFailedError: it holds something else.
    """
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise damaged(what, text)
    if not all(isinstance(each, of) for each in (value.values() if isinstance(value, dict) else value)):
        raise damaged(what, text)
    return value


def damaged(what: str, text: object) -> RunFailedError:
    """Return the error for a column that holds nothing of ours."""
    return RunFailedError(
        f"the run store is damaged: the {what} cannot be read ({str(text)[:SHOWN_CHARS]!r})",
        hint="was it edited by hand? restore runs.db from a copy, or start the run anew",
    )
