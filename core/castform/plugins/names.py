"""Plugin names: their normal form, and words for an unknown one. Listing imports this, so it imports little."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_SEPARATORS = re.compile(r"[-_.]+")


@functools.lru_cache(maxsize=4096)  # a listing asks ten times for each name
def normalize_name(name: str) -> str:
    """Return the form in which names are compared: lower case, runs of `-`, `_`, `.` as one `-` (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def is_name(text: str) -> bool:
    """Say whether a plugin or a member of one may be called this."""
    return _NAME.fullmatch(text) is not None


def suggest_names(wrong: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are close to a wrong one, the closest first."""
    import difflib

    return difflib.get_close_matches(normalize_name(wrong), list(known), n=3, cutoff=0.6)


def quote_names(names: Iterable[str], *, limit: int = 8) -> str:
    """Return names as prose, cut after `limit` with the total."""
    shown = list(names)
    text = ", ".join(repr(name) for name in shown[:limit])
    return text if len(shown) <= limit else f"{text}, … ({len(shown)} in all)"
