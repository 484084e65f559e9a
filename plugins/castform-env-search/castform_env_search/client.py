"""The index as a `benchmax.rag.SearchClient`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.rag import SearchResult
from castform_env_search.corpus import Document
from castform_env_search.index import Bm25Index, load_index

LARGE = 20_000
"""Documents from which on a search gets a thread, so that other rollouts need not wait for it."""


@dataclass(frozen=True, slots=True)
class Bm25Search:
    """Searches a folder, or the package's own articles. Holds a path alone, so it is cheap to copy and to pickle."""

    corpus: Path | None = None

    @property
    def available_modes(self) -> list[str]:
        return ["lexical"]

    def load(self) -> Bm25Index:
        """Return the index, which is made on first use. ValueError: the folder holds nothing to search."""
        return load_index(self.corpus)

    async def search(self, query: str, mode: str = "auto", top_k: int = 10) -> list[SearchResult]:
        """Return the best documents for the words of a query."""
        index = await asyncio.to_thread(self.load) if self.corpus is not None else self.load()
        if len(index.documents) < LARGE:
            found = index.search(query, top_k)
        else:
            found = await asyncio.to_thread(index.search, query, top_k)
        return [make_result(document, score) for document, score in found]


def make_result(document: Document, score: float) -> SearchResult:
    """Return a found document as a search result."""
    return {
        "content": document.content,
        "source": document.source,
        "metadata": _shown_metadata(document),
        "score": score,
    }


def _shown_metadata(document: Document) -> dict[str, Any]:
    """Return the metadata with the title, which a piece of a document needs if its text does not name it."""
    is_told = not document.title or document.title.casefold() in document.content.casefold()
    return {**({} if is_told else {"title": document.title}), **document.metadata}
