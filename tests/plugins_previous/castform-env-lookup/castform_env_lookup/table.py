"""The table: 200 invented places with four whole-number columns, shipped inside this package."""

from __future__ import annotations

import csv
import hashlib
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

Split = Literal["train", "eval"]
Row = MappingProxyType[str, int]

COLUMNS = {
    "height": "height in metres",
    "founded": "founding year",
    "people": "number of people",
    "rain": "rainfall in millimetres a year",
}
HELD_OUT_SHARE = 0.4
"""Share of the places that only evaluation asks about. The tools know all of them."""


@cache
def load_table() -> MappingProxyType[str, Row]:
    """Return the rows by the place's name, in the order of the file."""
    text = (files("castform_env_lookup") / "places.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return MappingProxyType(
        {row["name"]: MappingProxyType({column: int(row[column]) for column in COLUMNS}) for row in rows}
    )


def split_of(name: str) -> Split:
    """Return the split of the questions about a place."""
    digest = hashlib.sha256(f"castform-env-lookup:{name}".encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") < HELD_OUT_SHARE * 2**64 else "train"


def find_name(text: str) -> str | None:
    """Return the place of exactly this name, in any case; None when there is none."""
    wanted = text.strip().casefold()
    return next((name for name in load_table() if name.casefold() == wanted), None)


def search_names(text: str, *, limit: int = 5) -> list[str]:
    """Return up to `limit` names that contain the text, in any case, those that begin with it first."""
    wanted = text.strip().casefold()
    if not wanted:
        return []
    found = [name for name in load_table() if wanted in name.casefold()]
    return sorted(found, key=lambda name: (not name.casefold().startswith(wanted), name))[:limit]
