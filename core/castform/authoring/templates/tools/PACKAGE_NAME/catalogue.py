"""The shop's catalogue, and the tools over it. The model sees the signatures and docstrings."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated

DATA = files("PACKAGE_NAME") / "data"
"""Inside the package, so that it is in the wheel."""
MOST_FOUND = 5


@cache
def load_prices() -> MappingProxyType[str, int]:
    """Return the price in euros by article, in the order of the file."""
    lines = (DATA / "catalogue.jsonl").read_text(encoding="utf-8").splitlines()
    return MappingProxyType(
        {row["article"]: row["price"] for row in map(json.loads, lines)}
    )


def search(text: Annotated[str, "part of an article's name"]) -> list[str]:
    """List the articles whose name contains this text."""
    wanted = text.strip().casefold()
    return (
        [article for article in load_prices() if wanted in article][:MOST_FOUND]
        if wanted
        else []
    )


def price(
    article: Annotated[str, "the full name of the article, in the singular"],
) -> int | str:
    """Return what one piece of an article costs, in euros."""
    found = load_prices().get(article.strip().casefold())
    return (
        f"There is no article called {article!r}; search finds names."
        if found is None
        else found
    )
