"""Numbers with their noun, for sentences."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return `1 row`, `2 rows`, `1,024 rows`: the noun takes an s for all but one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
